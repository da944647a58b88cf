"""Pools of samples, normalised and rotated once; peers hold views of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ModelInputs: TypeAlias = Array | tuple[Array, ...] | dict[str, Array]
"""What a module is called with: one array, several in order, or several by name; (n, …) each."""
One = TypeVar("One")
Other = TypeVar("Other")


def map_inputs(
    function: Callable[[One], Other], inputs: One | tuple[One, ...] | dict[str, One]
) -> Other | tuple[Other, ...] | dict[str, Other]:
    """Return the same structure of inputs with a function applied to each array."""
    if isinstance(inputs, dict):
        return {name: function(each) for name, each in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(function(each) for each in inputs)
    return function(inputs)


def list_inputs(inputs: One | tuple[One, ...] | dict[str, One]) -> list[One]:
    """Return the arrays of inputs in order."""
    if isinstance(inputs, dict):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, tuple) else [inputs]


@dataclass(frozen=True)
class Pool:
    """The samples of many peers: inputs (n, …), float32 or int64, and targets (n, …)."""

    inputs: ModelInputs
    targets: Array
    """int64 for classes, otherwise float32."""

    @property
    def only_inputs(self) -> Array:
        """The inputs, where there is one array."""
        (only,) = list_inputs(self.inputs)
        return only


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
