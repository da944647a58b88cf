"""Pools of samples, normalised and rotated once; peers hold views of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Pool:
    """The samples of many peers: `inputs` (n, *shape) float32, `targets` (n,) int64 or float32."""

    inputs: npt.NDArray[np.float32]
    targets: npt.NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """A view of a pool: the rows `start` to `stop`, or only the rows in `chosen`."""

    pool: int
    start: int
    stop: int
    chosen: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.stop - self.start if self.chosen is None else len(self.chosen)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the row numbers in the pool."""
        return np.arange(self.start, self.stop) if self.chosen is None else self.chosen


@dataclass(frozen=True)
class PeerSamples:
    """The data of one peer in the current step."""

    train: Samples
    validation: Samples
    test: Samples
