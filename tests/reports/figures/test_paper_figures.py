"""Figures for papers: every file is written, valid and the same each time, for any runs."""

from __future__ import annotations

import json
import re
import shutil
import warnings
import zlib
from pathlib import Path

import pytest
from commands import coterie, refused
from PIL import Image
from watching_runs import create

from coterie.experiments.experiment import Experiment
from coterie.reports.figures.curve_figures import scale_errors
from coterie.reports.figures.style import (
    COLUMN,
    MAX_TEXT,
    PAGE,
    clean_name,
    new_figure,
    use_style,
    write_figure,
)
from coterie.reports.figures.sweep_figures import draw_sweeps

DAC = {"strategy.fetches": 2}
DRIFTING = {
    **DAC,
    "drift": {"kind": "random", "every": 3},
    "watch.peers": [0],
    "rounds": 8,
    "test_every": 2,
}
POINTS = 72


def finished(folder: Path, labels: list[str], seeds: list[int], **changes: object) -> Path:
    experiment = create(folder, labels, seeds, **changes)
    experiment.run(threads=1, tell=lambda message: None)
    return folder


@pytest.fixture(scope="session")
def drifting(tmp_path_factory) -> Path:
    """Return runs with everything there is to draw: seeds, shifts, a watched peer."""
    folder = tmp_path_factory.mktemp("figures") / "drifting"
    return finished(folder, ["local", "random", "dac"], [0, 1], **DRIFTING)


@pytest.fixture(scope="session")
def one_run(tmp_path_factory) -> Path:
    """Return a run with every type of figure, for tests that draw repeatedly."""
    folder = tmp_path_factory.mktemp("figures") / "one"
    return finished(folder, ["dac"], [0], **DRIFTING)


def drawn(runs: Path, target: Path, *options: object) -> dict[str, Path]:
    """Return the figures of a folder by their names; a warning of matplotlib's is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = coterie("figures", runs, "--out", target, *options)
    assert answer.code == 0, answer.err
    return {path.stem: path for path in sorted(target.iterdir())}


@pytest.fixture(scope="session")
def figures(drifting, tmp_path_factory) -> dict[str, Path]:
    """Return the figures as people get them when they ask for nothing special."""
    return drawn(drifting, tmp_path_factory.mktemp("drawn") / "figures", "--for", "paper")


def streams(pdf: bytes) -> bytes:
    """Return what is in the compressed parts of a PDF."""
    found = b""
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            found += zlib.decompress(stream)
        except zlib.error:
            continue  # an image
    return found


def size_of(pdf: bytes) -> tuple[float, float]:
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", pdf)
    assert box
    return float(box[1]) / POINTS, float(box[2]) / POINTS


def test_all_figures_of_the_papers(figures):
    both = ("random", "dac")
    assert set(figures) == {
        "curves-validation",
        "curves-test",
        "communication-and-results",
        *(f"{kind}-{label}" for kind in ("merges", "communication", "graph") for label in both),
        *(f"similarity-{label}-peer0" for label in ("local", *both)),
    }
    for name, path in figures.items():
        content = path.read_bytes()
        assert content.startswith(b"%PDF-1."), name
        assert content.rstrip().endswith(b"%%EOF"), name
        assert b"CreationDate" not in content
        width, height = size_of(content)
        assert width <= PAGE + 0.01, name
        assert height <= 6, name


def test_letters_are_embedded_as_truetype_and_readable(figures):
    for name, path in figures.items():
        content = path.read_bytes()
        assert b"/FontFile2" in content, name  # TrueType letters, inside the file
        assert b"/Type3" not in content, name
        sizes = [float(size) for size in re.findall(rb"/F\d+ ([\d.]+) Tf", streams(content))]
        assert sizes, name
        assert min(sizes) >= 7, name


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_the_same_runs_give_the_same_bytes(one_run, figures, tmp_path, kind):
    first = drawn(one_run, tmp_path / "first", "--format", kind)
    second = drawn(one_run, tmp_path / "second", "--format", kind)
    of_others = {name for name in figures if "local" in name or "random" in name}
    assert first.keys() == second.keys() == figures.keys() - of_others
    for name, path in first.items():
        assert path.suffix == f".{kind}"
        assert path.read_bytes() == second[name].read_bytes(), name


def test_without_colour_curves_differ_in_dashes(figures):
    """In the PDF: as many kinds of dashes as strategies, and one more at the shifts."""
    content = streams(figures["curves-validation"].read_bytes())
    assert len(set(re.findall(rb"\[ ?([\d. ]*)\] [\d.]+ d\b", content))) >= 4


def test_hostile_names(drifting, tmp_path):
    runs = Path(shutil.copytree(drifting, tmp_path / "a $b$ <c> %n"))
    names = [r"$\frac{1}{", "_hidden", "猫\x00\n\u202e" + "x" * 500, "</svg>&"]
    for summary in runs.glob("*/summary.json"):
        content = json.loads(summary.read_text())
        summary.write_text(json.dumps({**content, "cluster_names": names}))
    found = drawn(runs, tmp_path / "figures", "--format", "svg")
    assert len(found) == 12
    for path in found.values():
        assert path.parent == tmp_path / "figures"


def test_a_name_that_leads_out_of_the_folder(one_run, tmp_path):
    """The same strategy in two folders is labelled with their names, which may be any text."""
    first = Path(shutil.copytree(one_run, tmp_path / "one"))
    second = Path(shutil.copytree(one_run, tmp_path / "..x; two"))
    for config in second.glob("*/config.yaml"):
        config.write_text(config.read_text().replace("train_size: 24", "train_size: 23"))
    target = tmp_path / "figures"
    answer = coterie("figures", first, second, "-o", target)
    assert answer.code == 0, answer.err
    assert all(re.fullmatch(r"[\w.+=~-]+\.pdf", path.name) for path in target.iterdir())


def test_one_seed_two_peers_one_cluster(tmp_path):
    changes = {"peers.count": 2, "strategy.fetches": 1, "shift": {"kind": "none"}}
    runs = finished(tmp_path / "runs", ["random"], [0], **changes)
    found = drawn(runs, tmp_path / "figures")
    assert "graph-random" in found
    width, _ = size_of(found["curves-validation"].read_bytes())
    assert width == pytest.approx(COLUMN, abs=0.01)


def test_regression(tmp_path):
    answer = coterie(
        "run", "friends-synthetic", "--strategy", "random,local", "--peers", 9, "--rounds", 3,
        "--threads", 1, "--set", "strategy.fetches=2", "--out", tmp_path / "runs",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    found = drawn(tmp_path / "runs", tmp_path / "figures", "--format", "svg")
    assert "curves-validation" in found


def test_unfinished_and_damaged_runs(drifting, tmp_path):
    runs = Path(shutil.copytree(drifting, tmp_path / "runs"))
    (runs / "dac-seed1" / "summary.json").unlink()
    (runs / "random-seed0" / "metrics.parquet").write_bytes(b"no table")
    (runs / "dac-seed0" / "exchanges.parquet").write_bytes(b"no table")
    answer = coterie("figures", runs)
    assert answer.code == 0, answer.err
    assert "random-seed0" in answer.err
    assert (runs / "figures" / "curves-validation.pdf").exists()


def test_nothing_to_draw(tmp_path):
    create(tmp_path / "runs", ["random"], [0], **DAC)
    refused(coterie("figures", tmp_path / "runs"), 4, "has not recorded a round yet")
    refused(coterie("figures", tmp_path / "none"), 4, "There is no folder")
    assert not (tmp_path / "none").exists()


def test_sweeps(tmp_path):
    answer = coterie(
        "sweep", "digits", "--strategy", "dac,random", "--vary", "strategy.tau=1,30,1000",
        "--vary", "training.optimizer=adam,sgd", "--peers", 4, "--rounds", 1, "--threads", 1,
        "--set", "strategy.fetches=1", "--out", tmp_path / "runs",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    with use_style():
        figures = draw_sweeps(Experiment.open(tmp_path / "runs"))
        assert set(figures) == {"sweep-strategy.tau", "sweep-training.optimizer"}
        (axes,) = figures["sweep-strategy.tau"].axes
        assert axes.get_xscale() == "log"
        assert list(axes.xaxis.get_major_locator()()) == [1, 30, 1000]
        (axes,) = figures["sweep-training.optimizer"].axes
        assert axes.get_xscale() == "linear"
        assert [text.get_text() for text in axes.get_xticklabels()] == ["adam", "sgd"]
        for figure in figures.values():
            write_figure(figure, tmp_path, "sweep", "png")
    with Image.open(tmp_path / "sweep.png") as picture:
        assert picture.width == pytest.approx(COLUMN * 300, abs=1)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("dac", "dac"), ("_x", " _x"), ("a\n b\t", "a b"), ("猫", "�"), ("", "�"), ("$x$", "$x$")],
)
def test_names_are_made_drawable(name, shown):
    assert clean_name(name) == shown


def test_long_names_keep_what_tells_them_apart():
    first, second = (clean_name("x" * 60 + end) for end in ("-one", "-two"))
    assert len(first) == MAX_TEXT
    assert first != second


@pytest.mark.parametrize(
    ("higher_is_better", "values", "scale"),
    [(True, [1, 1000], "linear"), (False, [1, 20], "linear"), (False, [1, 1000, None], "log")],
)
def test_errors_of_very_different_sizes_are_shown_by_powers(higher_is_better, values, scale):
    with use_style():
        axes = new_figure(2, 2).subplots()
        scale_errors([axes], [values], {"higher_is_better": higher_is_better})
        assert axes.get_yscale() == scale
