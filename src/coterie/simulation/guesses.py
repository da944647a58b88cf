"""The best constant answers for test data, which a trained model has to beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.model_store import ModelStore
from coterie.tasks.score import ACCURACY, MAE, MSE, RMSE, TaskScore

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TestGuess:
    """The score of the best constant answer on the test data of one peer."""

    samples: tuple[int, ...]
    """What tells these test data from others: peers of a cluster may share them."""
    value: float
    num_samples: int


def guess_tests(state: ModelStore) -> list[TestGuess] | None:
    """Return the guesses of the peers of `state`; None if the task has no such answer."""
    guessed = _GUESSES.get(state.datasets.task.score)
    if guessed is None or any(pool.targets.ndim > 1 for pool in state.datasets.pools):
        return None
    known: dict[tuple[int, ...], TestGuess] = {}
    guesses = []
    for row, number in enumerate(state.numbers):
        samples = state.samples[row].test
        own = () if samples.chosen is None else (number,)
        key = (samples.pool, samples.start, samples.stop, *own)
        if key not in known:
            targets = state.datasets.pools[samples.pool].targets[samples.rows()]
            value = state.datasets.task.in_user_units(guessed(targets))
            known[key] = TestGuess(key, value, len(samples))
        guesses.append(known[key])
    return guesses


def _share_of_most_common(targets: Array) -> float:
    return float(np.bincount(targets.astype(np.int64)).max() / len(targets))


_GUESSES: dict[TaskScore, Callable[[Array], float]] = {
    ACCURACY: _share_of_most_common,
    MSE: lambda targets: float(targets.var(dtype=np.float64)),
    RMSE: lambda targets: float(targets.std(dtype=np.float64)),
    MAE: lambda targets: float(np.abs(targets - np.median(targets)).mean()),
}
"""The score of the best constant answer: the most common class, the mean, or the median."""
