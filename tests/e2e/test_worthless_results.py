"""Runs that end without an error but whose results mean nothing: it is said, and is in the data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from commands import coterie, plain
from torch import nn

from coterie import PeerData, SimulationSettings, simulate
from coterie.learning.settings import TrainingSettings

RUN = ("--peers", 8, "--threads", 1, "--set", "strategy.fetches=2")
GUESSING, UNTRAINED, NOTHING = (
    "not clearly better than guessing",
    "no better than untrained",
    "no rounds",
)


def run(tmp_path, preset: str, *arguments: object) -> tuple[str, list[list[str]]]:
    """Return what was printed, and the warnings of all runs."""
    folder = tmp_path / "out"
    done = coterie("run", preset, *RUN, *arguments, "--out", folder)
    assert done.code == 0, done.err
    summaries = [json.loads(path.read_text()) for path in sorted(folder.glob("*/summary.json"))]
    return plain(done.out), [summary["warnings"] for summary in summaries]


def test_a_learning_rate_beyond_all_bounds(tmp_path):
    rate = ("--set", "training.learning_rate=1e6", "--seeds", 2)
    printed, warnings = run(tmp_path, "digits", "--strategy", "random", "--rounds", 2, *rate)
    assert all(GUESSING in mine[0] and UNTRAINED in mine[1] for mine in warnings)
    assert printed.count("Warning: random (seed") == 4
    assert "training.learning_rate (1e+06)" in printed
    assert (
        printed.index("test accuracy %")
        < printed.index("Warning")
        < printed.index("All files are in")
    )


def test_a_learning_rate_that_changes_nothing(tmp_path):
    rate = ("--set", "training.learning_rate=1e-30")
    _, (warnings,) = run(tmp_path, "digits", "--strategy", "random", "--rounds", 2, *rate)
    assert UNTRAINED in warnings[-1]


def test_no_rounds(tmp_path):
    printed, warnings = run(tmp_path, "digits", "--strategy", "random,fedavg", "--rounds", 0)
    assert [NOTHING in mine for (mine,) in warnings] == [True, True]
    assert printed.count("Warning") == 1  # the same for both
    assert "Warning: random, fedavg (seed 0)" in printed


def test_a_run_that_learns_is_not_accused(tmp_path):
    printed, warnings = run(tmp_path, "digits", "--strategy", "local,oracle", "--rounds", 8)
    assert warnings == [[], []]
    assert "Warning" not in printed


@pytest.mark.parametrize(("rate", "is_accused"), [("1e-30", True), ("0.003", False)])
def test_regression_is_compared_with_the_mean(tmp_path, rate, is_accused):
    _, (warnings,) = run(
        tmp_path,
        "friends-synthetic",
        *("--strategy", "oracle", "--rounds", 15, "--set", f"training.learning_rate={rate}"),
    )
    assert any(GUESSING in text for text in warnings) == is_accused


def test_guessing_knows_the_clusters(tmp_path):
    """With two labels per cluster, 50% is what guessing reaches, not what a model has learned."""
    groups = "shift={kind: labels, groups: [[0, 1], [2, 3], [4, 5], [6, 7]]}"
    rate = ("--set", "training.learning_rate=1e-30", "--set", groups)
    printed, (warnings,) = run(tmp_path, "digits", "--strategy", "random", "--rounds", 1, *rate)
    assert GUESSING in warnings[0]
    assert "for each peer reaches 5" in printed


def test_the_report_says_it(tmp_path):
    run(tmp_path, "digits", "--strategy", "random", "--rounds", 0)
    page = tmp_path / "report.html"
    assert coterie("report", tmp_path / "out", "-o", page).code == 0
    assert NOTHING in page.read_text()


def peers(noise: float) -> list[PeerData]:
    rng = np.random.default_rng(0)

    def part(count: int):
        labels = rng.integers(0, 2, count)
        inputs = rng.normal(0, noise, (count, 4)) + labels[:, None]
        return inputs.astype(np.float32), labels

    return [PeerData(part(20), part(20), part(200)) for _ in range(4)]


def test_the_library_has_the_warnings():
    def reached(noise: float, **settings: object) -> tuple[str, ...]:
        fast = TrainingSettings(learning_rate=0.03)
        made = SimulationSettings(**{"rounds": 5, "training": fast, **settings})
        return simulate(lambda: nn.Linear(4, 2), peers(noise), "local", made, threads=1).warnings

    assert reached(0.3) == ()
    assert GUESSING in reached(1e3)[0]
    assert NOTHING in reached(0.3, rounds=0)[0]


def test_the_warnings_change_no_result():
    """They are found out when the run is over: its models are those that were tested."""
    one = simulate(lambda: nn.Linear(4, 2), peers(0.3), "local", threads=1)
    assert np.isfinite(one.models).all()
    module = one.load_into(nn.Linear(4, 2), 0)
    inputs, labels = peers(0.3)[0].test
    with torch.no_grad():
        right = module(torch.from_numpy(inputs)).argmax(1).numpy() == labels
    assert right.mean() == pytest.approx(one.test_score[0])
