"""Arrays that worker processes share with their parent."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


def shared_array(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros in anonymous memory that stays shared after a fork; freed with the array."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), kind, count=math.prod(shape)).reshape(shape)
