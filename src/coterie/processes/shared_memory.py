"""Arrays that worker processes share with their parent."""

from __future__ import annotations

import math
import mmap
import os
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


def shared_array(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros in anonymous memory that stays shared after a fork; freed with the array."""
    return _view(mmap.mmap(-1, max(_num_bytes(shape, dtype), 1)), shape, dtype)


@dataclass(frozen=True)
class Placement:
    """Where an array lies in a `GrowingMemory`: plain data, so that it can be sent to a worker."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class GrowingMemory:
    """Shared memory for arrays that are made after workers were forked.

    A worker inherits the memory when it is forked. The parent adds an array with `add` and sends
    its placement; the worker finds the array with `at`. Pages take memory once they are written.
    """

    def __init__(self) -> None:
        # Without memfd_create there are no forked workers either: they are for Linux only.
        self._file = os.memfd_create("coterie") if hasattr(os, "memfd_create") else None
        self._end = 0
        if self._file is not None:
            weakref.finalize(self, os.close, self._file)

    def add(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> tuple[npt.NDArray[Any], Placement]:
        """Return a new array of zeros, and where it lies."""
        placement = Placement(self._end, shape, np.dtype(dtype).str)
        pages = -(-max(_num_bytes(shape, dtype), 1) // mmap.ALLOCATIONGRANULARITY)
        self._end += pages * mmap.ALLOCATIONGRANULARITY
        if self._file is None:
            return shared_array(shape, dtype), placement
        os.ftruncate(self._file, self._end)
        return self.at(placement), placement

    def at(self, placement: Placement) -> npt.NDArray[Any]:
        """Return the array that was placed there, in the process that added it or in a worker."""
        if self._file is None:
            raise RuntimeError("This system has no memory that processes find by its place.")
        size = max(_num_bytes(placement.shape, placement.dtype), 1)
        memory = mmap.mmap(self._file, size, offset=placement.offset)
        return _view(memory, placement.shape, placement.dtype)


def _num_bytes(shape: tuple[int, ...], dtype: npt.DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _view(memory: mmap.mmap, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.frombuffer(memory, np.dtype(dtype), count=math.prod(shape)).reshape(shape)
