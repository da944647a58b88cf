"""Errors are shown in the user's units, and losses suffice for the root of the squared error."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coterie.tasks import Task, TaskSettings

OUTPUTS, TARGETS = torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 3.0])
LOSSES = np.array([1, 0], np.float32)


@pytest.mark.parametrize(
    ("score", "expected"),
    [("mse", 50.0), ("rmse", 50**0.5), ("mae", 5.0), ("loss", 0.5), ("r2", 7 / 9)],
)
def test_errors_are_multiplied_by_the_unit(score, expected):
    task = Task("mse", score, unit=10)
    assert task.score_from(OUTPUTS, TARGETS, LOSSES) == pytest.approx(expected)


@pytest.mark.parametrize("score", ["mse", "rmse", "loss"])
def test_compiled_code_needs_no_outputs_for_scores_of_the_squared_error(score):
    task = Task("mse", score, unit=10)
    assert not task.needs_outputs
    assert task.score_of_loss(0.5) == task.score_from(OUTPUTS, TARGETS, LOSSES)


def test_settings_keep_the_unit_and_the_score_that_data_suggest():
    suggested = Task("mse", "rmse", unit=10)
    kept = TaskSettings(metrics=("mae",)).make(suggested)
    assert (kept.score.name, kept.unit) == ("RMSE", 10)
    other = TaskSettings(loss="mae").make(suggested)
    assert (other.score.name, other.unit) == ("MAE", 10)
    chosen = TaskSettings(score="r2").make(suggested)
    assert chosen.score.name == "R²"
