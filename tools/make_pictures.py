"""Makes the pictures of these pages from real runs of the bundled digits, seeded and offline.

usage: python tools/make_pictures.py [FOLDER]

FOLDER keeps the runs and is used again where they are there. It needs the development extra and a
chromium, which may be named in COTERIE_BROWSER. Pages are photographed in a browser, figures
for print are those of `coterie figures`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from docs_folder import DOCS

PICTURES = DOCS / "pictures"
# The demo, for the README; the run of the tutorial, with two peers watched, which changes no
# result; and one that drifts.
RUNS = {
    "demo": "coterie run digits --seeds 3 --out runs/demo",
    "mine": "coterie run digits --seeds 3 --set strategy.metric=inverse-distance "
    "--set 'watch.peers=[0, 25]' --out runs/mine",
    "drift": "coterie run digits-drift --seeds 3 --out runs/drift",
}
# The live view is photographed half-way, so this one takes a little longer.
LIVE = "coterie run digits --rounds 300 --set strategy.metric=inverse-distance --out runs/live"
WIDTH, LIVE_HEIGHT = 900, 1250
"""Pixels of the browser's window."""
SHARPNESS = 1.5
"""Pixels of a picture per pixel of the window: readable on fine screens, small enough to keep."""


@dataclass(frozen=True)
class Photograph:
    """One section of a report, as it is when a choice has been made in it."""

    name: str
    run: str
    section: str
    choices: tuple[tuple[str, str], ...] = ()
    """What is chosen: the label of a control, and one of its options."""


TOP = "report"
"""The picture of the top of the demo's report, down to the end of its curves."""
PHOTOGRAPHS = (
    Photograph("summary", "mine", "summary"),
    Photograph("curves", "mine", "curves"),
    Photograph("gains", "mine", "gains", (("Strategy", "dac"),)),
    Photograph("gains-random", "mine", "gains", (("Strategy", "random"),)),
    Photograph("heatmap", "mine", "heatmap", (("Strategy", "dac"),)),
    Photograph("graph", "mine", "graph", (("Strategy", "dac"),)),
    Photograph("recovery", "mine", "recovery"),
    Photograph("estimates", "mine", "estimates", (("Strategy", "dac"),)),
    Photograph(
        "similarity",
        "mine",
        "similarity",
        (("Strategy", "dac"), ("Similarity by", "inverse-loss")),
    ),
    Photograph("merge", "mine", "merge", (("Strategy", "dac"),)),
    Photograph("frontier", "mine", "frontier"),
    Photograph("drift", "drift", "curves", (("Measured on", "validation data, every round"),)),
)
FIGURES = ("communication-dac",)
"""Figures for print that pages show."""


def names() -> set[str]:
    """Return the names of all pictures."""
    photographs = {photograph.name for photograph in PHOTOGRAPHS}
    return photographs | {f"print-{name}" for name in FIGURES} | {"watch", TOP}


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if sys.argv[1:] else temporary)
        make_runs(folder)
        PICTURES.mkdir(exist_ok=True)
        with browser() as started:
            for run in RUNS:
                photograph_report(started, folder, run)
            photograph_top(started, folder)
            photograph_live_view(started, folder)
        copy_figures(folder)
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.stat().st_size / 1024:6.1f} KB  {path.name}")


def make_runs(folder: Path) -> None:
    """Run what is not there yet, and write its report."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in RUNS.items():
        if not (folder / "runs" / name).exists():
            coterie(folder, *shlex.split(command)[1:])
        coterie(folder, "report", f"runs/{name}", "-o", f"{name}.html")


def coterie(folder: Path, *arguments: str) -> None:
    """Run a command in a folder."""
    subprocess.run([sys.executable, "-m", "coterie", *arguments], cwd=folder, check=True)


@contextmanager
def browser() -> Iterator[Any]:
    """Start the system's chromium."""
    from playwright.sync_api import sync_playwright

    path = shutil.which(os.environ.get("COTERIE_BROWSER", "chromium"))
    if path is None:
        sys.exit("There is no chromium: install it, or name a browser in COTERIE_BROWSER.")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=options)
        yield started
        started.close()


def photograph_report(started: Any, folder: Path, run: str) -> None:
    """Photograph the sections of one report."""
    page = _report(started, folder, run)
    for photograph in PHOTOGRAPHS:
        if photograph.run != run:
            continue
        section = page.locator(f"#{photograph.section}")
        section.scroll_into_view_if_needed()
        section.locator(".picture, table").first.wait_for()
        for label, option in photograph.choices:
            control = section.locator("label", has_text=label).locator("select")
            control.select_option(label=option)
        page.wait_for_timeout(500)
        save_picture(section.screenshot(), photograph.name)


def photograph_top(started: Any, folder: Path) -> None:
    """Photograph the top of the demo's report; fewer colours would merge those of strategies."""
    page = _report(started, folder, "demo")
    curves = page.locator("#curves")
    curves.locator(".picture .scatterlayer path").first.wait_for()
    box = curves.bounding_box()
    page.set_viewport_size({"width": WIDTH, "height": int(box["y"] + box["height"])})
    page.wait_for_timeout(500)
    save_picture(page.screenshot(), TOP, num_colours=256)


def _report(started: Any, folder: Path, run: str) -> Any:
    """Open a report."""
    page = _window(started, WIDTH)
    page.goto((folder / f"{run}.html").resolve().as_uri())
    # Buttons say nothing on a picture.
    page.add_style_tag(content=".savers { display: none }")
    return page


def photograph_live_view(started: Any, folder: Path) -> None:
    """Photograph a run half-way, then stop it."""
    shutil.rmtree(folder / "runs" / "live", ignore_errors=True)
    with _started(folder, *shlex.split(LIVE)[1:]):
        while not list(folder.glob("runs/live/dac-seed0/metrics/*")):
            time.sleep(0.1)
        with _started(folder, "watch", "runs/live") as watching:
            address = re.search(r"http://\S+", watching.stderr.readline())
            if address is None:
                sys.exit("The live view did not say where it is.")
            page = _window(started, WIDTH, LIVE_HEIGHT)
            page.goto(address[0])
            page.locator("#curves .picture .scatterlayer path").first.wait_for()
            save_picture(page.screenshot(), "watch")
            page.close()


@contextmanager
def _started(folder: Path, *arguments: str) -> Iterator[Any]:
    """Start a command in a folder, and stop it in the end as Ctrl-C does."""
    command = [sys.executable, "-m", "coterie", *arguments]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def copy_figures(folder: Path) -> None:
    """Make the figures for print, and keep those that pages show."""
    coterie(folder, "figures", "runs/mine", "--format", "png", "-o", "figures")
    for name in FIGURES:
        save_picture((folder / "figures" / f"{name}.png").read_bytes(), f"print-{name}", WIDTH)


def _window(started: Any, width: int, height: int = 900) -> Any:
    size = {"width": width, "height": height}
    return started.new_context(viewport=size, device_scale_factor=SHARPNESS).new_page()


def save_picture(
    picture: bytes,
    name: str,
    width: int | None = None,
    folder: Path = PICTURES,
    num_colours: int | None = None,
) -> None:
    """Write a picture without loss, or with fewer colours, and not wider than it is shown."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    widest = round((width or image.width) * SHARPNESS)
    if image.width > widest:
        image = image.resize((widest, round(image.height * widest / image.width)))
    if num_colours is not None:
        image = image.quantize(num_colours).convert("RGB")
    image.save(folder / f"{name}.webp", lossless=True, method=6)


if __name__ == "__main__":
    main()
