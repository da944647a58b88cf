"""A real browser, and pages of real runs in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from commands import coterie

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Return where a browser is: COTERIE_BROWSER, or what the system has."""
    named = os.environ.get("COTERIE_BROWSER")
    return next((found for name in (named, *NAMES) if name and (found := shutil.which(name))), None)


@dataclass
class Opened:
    """A page in a browser, and everything it should not have done."""

    page: object
    faults: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note errors, and requests for anything but what is inside the file."""
        page = self.page
        page.on(
            "console",
            lambda message: self._note(message.type in ("error", "warning"), message.text),
        )
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("request", lambda asked: self._note(not _is_inside(asked.url), asked.url[:200]))

    def _note(self, is_fault: bool, text: str) -> None:
        if is_fault:
            self.faults.append(text)

    def draw_all(self) -> None:
        """Look at every section, so that all figures are drawn."""
        for section in self.page.locator("section").all():
            section.scroll_into_view_if_needed()
            section.locator(":scope > .figure > *").first.wait_for(state="attached")


def _is_inside(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))


@pytest.fixture(scope="session")
def browser_command() -> list[str]:
    """Return what starts a browser, with the options it needs here."""
    found = find_browser()
    if found is None:
        pytest.skip("no browser: install chromium, or name one in COTERIE_BROWSER")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [found, *["--no-sandbox"] * is_root]


# By module: while the browser is open, an event loop runs in this thread, and a process more is
# there than other tests expect.
@pytest.fixture(scope="module")
def browser(browser_command) -> Iterator[object]:
    """Return a browser of the system; playwright's own is not needed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    found, *options = browser_command
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def windows(browser) -> Iterator[dict[object, Opened]]:
    """Return the pages that are open: a page takes seconds to open, so tests share it."""
    opened: dict[object, Opened] = {}
    yield opened
    for each in opened.values():
        each.page.context.close()


@pytest.fixture
def open_page(browser, windows):
    """Return what opens a file in a window of some width; faults fail the test when it ends."""
    used = []

    def opener(file: Path, width: int = 1400, theme: str = "light") -> Opened:
        key = (file, width, theme)
        if key not in windows:
            size = {"width": width, "height": 900}
            context = browser.new_context(viewport=size, color_scheme=theme)
            windows[key] = Opened(context.new_page())
            windows[key].listen()
            windows[key].page.goto(file.as_uri())
            windows[key].draw_all()
        used.append(windows[key])
        return windows[key]

    yield opener
    assert [fault for each in used for fault in each.faults] == []


@pytest.fixture
def open_unseen(browser):
    """Return what opens a file of which only the top has been looked at."""
    opened = []

    def opener(file: Path, theme: str = "light") -> object:
        context = browser.new_context(viewport={"width": 1400, "height": 300}, color_scheme=theme)
        opened.append(Opened(context.new_page()))
        opened[-1].listen()
        opened[-1].page.goto(file.as_uri())
        return opened[-1].page

    yield opener
    for each in opened:
        each.page.context.close()
    assert [fault for each in opened for fault in each.faults] == []


@pytest.fixture(scope="module")
def digits(browser, tmp_path_factory) -> Path:
    """Return the page of three strategies with three seeds."""
    return _reported(
        tmp_path_factory.mktemp("digits"),
        ("digits", "--strategy", "local,dac,oracle", "--seeds", 3, "--rounds", 10, "--peers", 16),
    )


@pytest.fixture(scope="module")
def drift(browser, tmp_path_factory) -> Path:
    """Return the page of runs whose data shift, with watched peers and poisoned ones."""
    watched = ("--set", "watch.peers=[0, 5]", "--set", "drift.every=5")
    watched += ("--set", "poison={kind: noise, count: 2}")
    return _reported(
        tmp_path_factory.mktemp("drift"),
        ("digits-drift", "--strategy", "local,dac", "--rounds", 12, "--peers", 12, *watched),
    )


def _reported(folder: Path, arguments: tuple[object, ...]) -> Path:
    answer = coterie("run", *arguments, "--threads", 1, "--out", folder / "runs")
    assert answer.code == 0, answer
    answer = coterie("report", folder / "runs", "-o", folder / "report.html")
    assert answer.code == 0, answer
    return folder / "report.html"
