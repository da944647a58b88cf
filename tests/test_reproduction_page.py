"""The page of reproductions is written from what is kept of experiments, and is up to date."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import coterie

from coterie.errors import ConfigError, StorageError
from coterie.experiment import Experiment
from coterie.simulation.records import read_table

DOCS = Path(__file__).parent.parent / "docs"
# A setting with published numbers on data that are made on the spot.
STARTED = (
    *("run", "friends-synthetic", "--strategy", "random,local", "--seed", 3, "--seeds", 2),
    *("--rounds", 2, "--peers", 12, "--set", "training.batch_size=16"),
)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reproduction_page", DOCS / "reproduction.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "out"
    assert coterie(*STARTED, "--threads", 1, "--out", folder).code == 0
    return folder


def test_page_is_up_to_date(script):
    page = (DOCS / "reproduction.md").read_text()
    assert page == script.page(), "run: .venv/bin/python docs/reproduction.py"


def test_what_is_kept_says_how_it_was_made(script, finished):
    kept = script.keep(Experiment.open(finished))
    assert kept.changes == {"rounds": 2, "peers.count": 12, "training.batch_size": 16}
    assert shlex.split(kept.command) == ["coterie", *map(str, STARTED)]
    assert [(run.outcome.label, run.outcome.seed) for run in kept.runs] == [
        ("random", 3),
        ("local", 3),
        ("random", 4),
        ("local", 4),
    ]
    timings = read_table(finished / "local-seed4", "timings")
    assert kept.runs[-1].num_rounds == timings.num_rows - 1 == 2
    wall = sum(timings["wall_seconds"].to_pylist())
    assert kept.runs[-1].wall_seconds == pytest.approx(wall, abs=0.06)


def test_page_lays_ours_beside_the_published(script, finished, tmp_path):
    kept = script.keep(Experiment.open(finished))
    assert script.read(script.write(kept, tmp_path, "short")) == kept
    page = script.page(tmp_path)
    section = page[page.index("## short") :].partition("\n## ")[0]
    assert kept.command in section
    random, published, difference = (
        [cell.strip() for cell in line.split("|")]
        for line in section[section.index("| **random") :].splitlines()[:3]
    )
    place = _place(section, "mean")
    ours = [run.outcome.mean for run in kept.runs if run.outcome.label == "random"]
    assert random[place].startswith(f"{sum(ours) / 2:.2f} ± ")
    assert published[place] == "1494.84"
    assert float(difference[place]) == pytest.approx(sum(ours) / 2 - 1494.84, abs=0.011)
    assert "shortened: 2 of 50 rounds" in section
    assert "Not a reproduction" in section
    assert "| local | 2 of 50 | 2 |" in section
    not_run = page[page.index("## Not run yet") :]
    assert "`friends-synthetic`" not in not_run
    assert "`dac-cifar-rotation4`" in not_run


def _place(section: str, title: str) -> int:
    """Return which column of the first table has a title."""
    header = next(line for line in section.splitlines() if line.startswith("| strategy"))
    return [cell.strip() for cell in header.split("|")].index(title)


def test_what_no_command_makes_needs_to_be_named(script, finished):
    """As where --scale shrank the options of each strategy in its own way."""
    uneven = Experiment.open(finished)
    changed = uneven.runs[0].config.model_copy(update={"rounds": 1})
    uneven.runs[0] = replace(uneven.runs[0], config=changed)
    with pytest.raises(ConfigError, match="--command"):
        script.keep(uneven)
    assert script.keep(uneven, "coterie run digits --scale 0.3").command.endswith("--scale 0.3")


def test_what_cannot_be_kept_or_read_is_refused(script, finished, tmp_path):
    unfinished = tmp_path / "random-seed3"
    unfinished.mkdir()
    config = (finished / "random-seed3" / "config.yaml").read_bytes()
    (unfinished / "config.yaml").write_bytes(config)
    with pytest.raises(StorageError, match="coterie resume"):
        script.keep(Experiment.open(unfinished))
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"preset": 1}')
    with pytest.raises(StorageError, match=r"damaged\.json is damaged at 'preset'"):
        script.page(tmp_path)
