"""Warnings about the results of a run: nothing was trained, or nothing was learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.data.pools import Samples
from coterie.simulation.simulation import Simulation

DEVIATIONS = 2.0
"""Standard errors of the test data by which models have to be better than guessing."""
LEAST_GAIN = 1e-3
"""The share of the initial loss that training has to remove."""


@dataclass(frozen=True)
class Guess:
    """The best constant answer for all samples, as a mean over peers."""

    value: float
    """An accuracy, or a mean squared error."""
    error: float
    """Its standard error, from the number of different test samples."""


def find_warnings(simulation: Simulation, metrics: pa.Table) -> tuple[str, ...]:
    """Return warnings about a finished run; its working models are replaced by the initial ones."""
    if simulation.settings.rounds == 0:
        return (
            "The run has no rounds, so peers exchanged nothing: these are the models before the "
            "first round.",
        )
    honest = ~simulation.state.poisoning.peers
    if not honest.any():
        return ()
    found = [_about_guessing(simulation, metrics, honest), _about_training(simulation, honest)]
    return tuple(text for text in found if text)


def best_guess(simulation: Simulation, honest: npt.NDArray[np.bool_]) -> Guess:
    """Return the result of guessing the most common label, or the mean, on the test data."""
    known: dict[tuple[int, int, int, int], tuple[float, int]] = {}
    values = []
    for peer in np.flatnonzero(honest):
        samples = simulation.state.samples[peer].test
        key = (samples.pool, samples.start, samples.stop, id(samples.chosen))
        if key not in known:
            known[key] = (_guessed(simulation, samples), len(samples))
        values.append(known[key][0])
    value, count = float(np.mean(values)), sum(size for _, size in known.values())
    if simulation.datasets.is_classification:
        return Guess(value, math.sqrt(value * (1 - value) / count))
    return Guess(value, value * math.sqrt(2 / count))


def _guessed(simulation: Simulation, samples: Samples) -> float:
    targets = simulation.datasets.pools[samples.pool].targets[samples.rows()]
    if simulation.datasets.is_classification:
        return float(np.bincount(targets).max() / len(targets))
    return float(targets.var(dtype=np.float64))


def _about_guessing(
    simulation: Simulation, metrics: pa.Table, honest: npt.NDArray[np.bool_]
) -> str | None:
    guess = best_guess(simulation, honest)
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    names = ("test_accuracy", "its most common label", ".1%")
    if not simulation.datasets.is_classification:
        names = ("test_loss", "its mean", ".4g")
    column, constant, form = names
    reached = float(np.nanmean(_known(last[column].to_numpy())))
    gain = reached - guess.value if simulation.datasets.is_classification else guess.value - reached
    if math.isnan(gain) or gain > DEVIATIONS * guess.error:
        return None
    what = "accuracy" if simulation.datasets.is_classification else "squared error"
    return (
        f"These models are not clearly better than guessing: on test data their mean {what} is "
        f"{reached:{form}}, and guessing {constant} for each peer reaches {guess.value:{form}}. "
        f"Check {_suspects(simulation)}."
    )


def _about_training(simulation: Simulation, honest: npt.NDArray[np.bool_]) -> str | None:
    reached = simulation.state.validate_best()[:, honest].mean(axis=1)
    before = simulation.validate_untrained()[:, honest].mean(axis=1)
    if reached[0] < before[0] * (1 - LEAST_GAIN) or reached[1] > before[1]:
        return None
    return (
        "These models are no better than untrained ones: their mean validation loss is "
        f"{reached[0]:.4g}, and {before[0]:.4g} before any training. Check "
        f"{_suspects(simulation)}."
    )


def _suspects(simulation: Simulation) -> str:
    training = simulation.settings.training
    return (
        f"training.learning_rate ({training.learning_rate:g}), training.epochs "
        f"({training.epochs}), the number of rounds ({simulation.settings.rounds}) and the data"
    )


def _known(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the values that are not NaN, or one NaN."""
    known = values[~np.isnan(values)]
    return known if len(known) else np.array([np.nan])
