"""Joins thousands of small arrays to a few: the tables of many peers, in one file.

The header of a safetensors file names every array. It may have 100 MB, which the tables of some
ten thousand peers would exceed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
PACKED = "packed "
"""Prefix of joined arrays, before their type; a space divides it from what the array holds."""
VALUES, KEYS, LENGTHS = " values", " keys", " lengths"


def pack_arrays(arrays: Mapping[int, npt.NDArray[Any]]) -> Arrays:
    """Return arrays by name: those of one dimension joined by type, all others by their key.

    Examples
    --------
    >>> packed = pack_arrays({0: np.array([1, 2]), 1: np.zeros((2, 2)), 2: np.array([3])})
    >>> packed["packed int64 values"], packed["packed int64 lengths"]
    (array([1, 2, 3]), array([2, 1]))
    >>> unpack_arrays(packed)[2]
    array([3])
    """
    flat: dict[str, dict[int, npt.NDArray[Any]]] = {}
    whole: Arrays = {}
    for key, array in arrays.items():
        if array.ndim == 1:
            flat.setdefault(array.dtype.name, {})[key] = array
        else:
            whole[str(key)] = array
    for kind, parts in flat.items():
        whole[PACKED + kind + VALUES] = np.concatenate(list(parts.values()))
        whole[PACKED + kind + KEYS] = np.array(list(parts), np.int64)
        whole[PACKED + kind + LENGTHS] = np.array([len(part) for part in parts.values()], np.int64)
    return whole


def unpack_arrays(packed: Mapping[str, npt.NDArray[Any]]) -> dict[int, npt.NDArray[Any]]:
    """Return what `pack_arrays` was given."""
    arrays: dict[int, npt.NDArray[Any]] = {}
    for name, array in packed.items():
        if not name.startswith(PACKED):
            arrays[int(name)] = array
        elif name.endswith(VALUES):
            stem = name.removesuffix(VALUES)
            ends = np.cumsum(packed[stem + LENGTHS])
            # Copies, because a part would keep all the others in memory.
            parts = (part.copy() for part in np.split(array, ends[:-1]))
            arrays.update(zip(packed[stem + KEYS].tolist(), parts, strict=True))
    return arrays
