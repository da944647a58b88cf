"""Warnings about the results of a run: nothing was trained, or nothing was learned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.simulation.any_simulation import AnySimulation
from coterie.tasks.score import ACCURACY, MAE, MSE, RMSE

DEVIATIONS = 2.0
"""Standard errors of the test data by which models have to be better than guessing."""
LEAST_GAIN = 1e-3
"""The share of the initial loss that training has to remove."""
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Guess:
    """The best constant answer for all samples, as a mean over peers."""

    value: float
    """In the score of the task."""
    error: float
    """Its standard error, from the number of different test samples."""


def find_warnings(simulation: AnySimulation, metrics: pa.Table) -> tuple[str, ...]:
    """Return warnings about a finished run; its working models are replaced by the initial ones."""
    if simulation.settings.rounds == 0:
        return (
            "The run has no rounds, so peers exchanged nothing: these are the models before the "
            "first round.",
        )
    honest = ~simulation.poisoned
    if not honest.any():
        return ()
    found = [_about_guessing(simulation, metrics, honest), _about_training(simulation, honest)]
    return tuple(text for text in found if text)


def best_guess(simulation: AnySimulation, honest: npt.NDArray[np.bool_]) -> Guess | None:
    """Return the score of the best constant answer on the test data; None if it is not known."""
    guesses = simulation.guess_tests()
    if guesses is None:
        return None
    chosen = [guess for guess, is_honest in zip(guesses, honest, strict=True) if is_honest]
    sizes = {guess.samples: guess.num_samples for guess in chosen}
    value, count = float(np.mean([guess.value for guess in chosen])), sum(sizes.values())
    if simulation.datasets.task.score == ACCURACY:
        return Guess(value, math.sqrt(value * (1 - value) / count))
    # A root has half the relative error.
    relative = math.sqrt(2 / count) / (2 if simulation.datasets.task.score == RMSE else 1)
    return Guess(value, value * relative)


_CONSTANTS = {
    ACCURACY: "its most common label",
    MSE: "its mean",
    RMSE: "its mean",
    MAE: "its median",
}


def _about_guessing(
    simulation: AnySimulation, metrics: pa.Table, honest: npt.NDArray[np.bool_]
) -> str | None:
    guess = best_guess(simulation, honest)
    if guess is None:
        return None
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    score = simulation.datasets.task.score
    reached = float(np.nanmean(_known(last["test_score"].to_numpy())))
    gain = score.sign * (reached - guess.value)
    if math.isnan(gain) or gain > DEVIATIONS * guess.error:
        return None
    constant = _CONSTANTS[score]
    return (
        "These models are not clearly better than guessing: on test data their mean "
        f"{score.name} is {score.format(reached)}, and guessing {constant} for each peer reaches "
        f"{score.format(guess.value)}. Check {_suspects(simulation)}."
    )


def _about_training(simulation: AnySimulation, honest: npt.NDArray[np.bool_]) -> str | None:
    task = simulation.datasets.task
    reached = simulation.validate_best()[:, honest].mean(axis=1)
    before = simulation.validate_untrained()[:, honest].mean(axis=1)
    has_better_score = task.needs_outputs and task.score.sign * (reached[1] - before[1]) > 0
    if reached[0] < before[0] * (1 - LEAST_GAIN) or has_better_score:
        return None
    return (
        "These models are no better than untrained ones: their mean validation loss is "
        f"{reached[0]:.4g}, and {before[0]:.4g} before any training. Check "
        f"{_suspects(simulation)}."
    )


def _suspects(simulation: AnySimulation) -> str:
    training = simulation.settings.training
    return (
        f"training.learning_rate ({training.learning_rate:g}), training.epochs "
        f"({training.epochs}), the number of rounds ({simulation.settings.rounds}) and the data"
    )


def _known(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the values that are not NaN, or one NaN."""
    known = values[~np.isnan(values)]
    return known if len(known) else np.array([np.nan])
