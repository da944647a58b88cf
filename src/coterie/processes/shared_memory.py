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
    """Return an array of zeros that stays shared after a fork."""
    return _view(mmap.mmap(-1, max(_num_bytes(shape, dtype), 1)), shape, dtype)


@dataclass(frozen=True)
class Placement:
    """The position of an array in a `GrowingMemory`; plain data that can be sent to a worker."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class GrowingMemory:
    """Shared memory for arrays that are created after workers were forked.

    A worker inherits the memory by its fork. The parent adds an array with `add` and sends the
    placement; the worker gets the array with `at`. Pages use memory only after they are written.
    """

    def __init__(self) -> None:
        # Systems without memfd_create have no forked workers: both are for Linux only.
        self._file = os.memfd_create("coterie") if hasattr(os, "memfd_create") else None
        self._end = 0
        if self._file is not None:
            weakref.finalize(self, os.close, self._file)

    def add(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> tuple[npt.NDArray[Any], Placement]:
        """Return a new array of zeros and its placement."""
        placement = Placement(self._end, shape, np.dtype(dtype).str)
        pages = -(-max(_num_bytes(shape, dtype), 1) // mmap.ALLOCATIONGRANULARITY)
        self._end += pages * mmap.ALLOCATIONGRANULARITY
        if self._file is None:
            return shared_array(shape, dtype), placement
        os.ftruncate(self._file, self._end)
        return self.at(placement), placement

    def at(self, placement: Placement) -> npt.NDArray[Any]:
        """Return the array of a placement, in the process that added it or in a worker."""
        if self._file is None:
            raise RuntimeError("This system cannot share memory that is created after a fork.")
        size = max(_num_bytes(placement.shape, placement.dtype), 1)
        memory = mmap.mmap(self._file, size, offset=placement.offset)
        return _view(memory, placement.shape, placement.dtype)


def _num_bytes(shape: tuple[int, ...], dtype: npt.DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _view(memory: mmap.mmap, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.frombuffer(memory, np.dtype(dtype), count=math.prod(shape)).reshape(shape)
