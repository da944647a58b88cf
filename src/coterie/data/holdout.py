"""Fixed test splits for datasets without one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]

TEST_FRACTION = 0.2


def random_holdout(count: int, random: np.random.Generator) -> tuple[Indices, Indices]:
    """Return sorted (train, test) indices of `count` samples; a fifth is for test."""
    return _split(np.arange(count), random)


def stratified_holdout(
    labels: npt.NDArray[np.int64], random: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return sorted (train, test) indices with a fifth of every class for test; labels (n,)."""
    parts = [_split(np.flatnonzero(labels == label), random) for label in np.unique(labels)]
    empty = np.empty(0, dtype=np.intp)
    train = np.concatenate([empty, *(train for train, _ in parts)])
    test = np.concatenate([empty, *(test for _, test in parts)])
    return np.sort(train), np.sort(test)


def _split(members: Indices, random: np.random.Generator) -> tuple[Indices, Indices]:
    """Hold out a fifth, but at least one sample, and never the only one."""
    num_test = min(max(1, round(TEST_FRACTION * len(members))), max(0, len(members) - 1))
    shuffled = random.permutation(members)
    return np.sort(shuffled[num_test:]), np.sort(shuffled[:num_test])
