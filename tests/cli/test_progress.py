"""What is shown while an experiment runs: all runs together, and each that is running."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie.cli import progress
from coterie.cli.progress import Display
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.round_metrics import RoundMetrics
from coterie.tasks.score import ACCURACY, MSE


def experiment(tmp_path, num_seeds: int) -> Experiment:
    configs = find_preset("digits").runs(["dac"], range(num_seeds), {"rounds": 9})
    return Experiment(tmp_path, [RunFolder(tmp_path / f"dac-seed{c.seed}", c) for c in configs])


@pytest.fixture
def console(monkeypatch) -> Console:
    """Return a terminal whose text can be read; whatever changes is drawn at once."""
    monkeypatch.setattr(progress, "DRAW_SECONDS", 0.0)
    return Console(file=io.StringIO(), force_terminal=True, width=150, color_system=None)


def reached(number: int, accuracy: float) -> RoundMetrics:
    return RoundMetrics(number, ACCURACY, {"validation_score_trained": accuracy})


def test_runs_side_by_side_have_a_bar_each(tmp_path, console):
    several = experiment(tmp_path, 3)
    with Display(several, console) as display:
        for run, number in ((several.runs[0], 3), (several.runs[1], 4)):
            display.show(run, reached(number, 0.5))
        drawn = console.file.getvalue()
        assert "0 of 3 runs done" in drawn
        assert "9/30" in drawn  # rounds 0 to 3 and 0 to 4, of three times 10
        assert "dac-seed0" in drawn
        assert "4/10" in drawn
        assert "validation accuracy 50.0%" in drawn
        assert "dac-seed2" not in drawn
        console.file.truncate(0)
        display.end(several.runs[0])
        after = console.file.getvalue()
        assert "1 of 3 runs done" in after
        assert "15/30" in after
        assert "dac-seed0" not in after
        assert "dac-seed1" in after


def test_a_single_run_has_a_single_bar(tmp_path, console):
    one = experiment(tmp_path, 1)
    with Display(one, console) as display:
        console.file.truncate(0)
        display.show(one.runs[0], RoundMetrics(3, MSE, {"validation_score_trained": 12.5}))
        drawn = console.file.getvalue()
    assert drawn.count("dac-seed0") == 1
    assert "validation MSE 12.5" in drawn
    assert "runs done" not in drawn


def test_without_a_terminal_lines_are_printed(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    several = experiment(tmp_path, 2)
    console = Console(file=io.StringIO(), force_terminal=False, width=150)
    with Display(several, console) as display:
        display.show(several.runs[1], reached(4, 0.25))
    (line,) = console.file.getvalue().strip().splitlines()
    assert line.startswith(
        "dac-seed1: round 4 of 9, validation accuracy 25.0%, 0 of 2 runs done, about "
    )
    assert line.endswith("s left")


def test_finished_runs_count_from_the_start(tmp_path, console):
    several = experiment(tmp_path, 2)
    folder = several.runs[0].folder
    folder.mkdir()
    (folder / "summary.json").write_text(
        '{"label": "dac", "seed": 0, "cluster_names": [], "cluster_means": [], "mean": 0.5,'
        ' "models_per_peer": 1, "megabytes_per_peer": 1, "is_accuracy": true}'
    )
    with Display(several, console) as display:
        display.show(several.runs[1], reached(0, 0.5))
        assert "1 of 2 runs done" in console.file.getvalue()
        assert "11/20" in console.file.getvalue()
