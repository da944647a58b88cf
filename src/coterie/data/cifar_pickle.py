"""The pickles of CIFAR's python version: plain values and integer numpy arrays, never executed."""

from __future__ import annotations

import io
import re
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError
from coterie.plain_pickle import (
    OPCODES,
    DamagedPickleError,
    PickleInterpreter,
    RefusedPickleError,
    Symbol,
    UnknownSymbolError,
    refused_instruction,
    text_of,
)

_MOST_DIMENSIONS = 8
_MOST_INSTRUCTIONS = 1_000_000
"""Several times those of the largest official file."""
_LONGEST_DIMENSION = 1 << 31


def read_cifar_pickle(content: bytes, where: str) -> object:
    """Return the plain value pickled in `content`; python 2 strings come back as bytes."""
    try:
        return _INTERPRETER.read(io.BytesIO(content))
    except RefusedPickleError as refusal:
        reason = str(refusal)
        if isinstance(refusal, UnknownSymbolError):
            reason = f"it names '{refusal.name.replace(' ', '.')}'"
        raise DataError(
            f"{where} is more than plain data: {reason}. The file was not executed. Only dicts, "
            "lists, text, numbers and integer numpy arrays are read; get the official file, or its "
            "binary version."
        ) from refusal
    except DamagedPickleError as damage:
        raise DataError(
            f"{where} is damaged or no pickle of plain data ({damage}); it was not executed. "
            "Replace it with a whole copy of the official file."
        ) from damage


class _PendingArray:
    """An array whose type, shape and bytes arrive with BUILD."""


def _reconstruct(*arguments: object) -> _PendingArray:
    match arguments:
        case (Symbol("numpy ndarray"), *_):
            return _PendingArray()
    raise refused_instruction("REDUCE on '_reconstruct' for something other than a numpy array")


def _dtype(*arguments: object) -> np.dtype[Any]:
    match arguments:
        case ((str() | bytes()) as code, *_):
            if not re.fullmatch("[iu][1248]", text_of(code)):
                shown = text_of(code)[:20]
                raise RefusedPickleError(
                    f"it holds numpy arrays of type '{shown}' rather than integers"
                )
            return np.dtype(text_of(code))
    raise refused_instruction("REDUCE on 'numpy dtype' without a type")


def _encode(*arguments: object) -> bytes:
    match arguments:
        case (str() as text, ("latin1" | "latin-1" | b"latin1" | b"latin-1")):
            return text.encode("latin-1")
    raise refused_instruction("REDUCE on '_codecs encode' for something other than latin-1")


def _build(target: object, state: object) -> object:
    if isinstance(target, _PendingArray):
        return _built_array(state)
    if isinstance(target, np.dtype):
        return _built_dtype(target, state)
    raise refused_instruction("BUILD on something other than a numpy array")


def _built_dtype(dtype: np.dtype[Any], state: object) -> np.dtype[Any]:
    if not (isinstance(state, tuple) and len(state) >= 2):
        raise ValueError("malformed numpy dtype")
    order = text_of(state[1])
    if order not in ("<", ">", "|", "="):
        raise ValueError("unknown byte order of a numpy dtype")
    return np.dtype(order + dtype.str[1:])


def _built_array(state: object) -> npt.NDArray[Any]:
    if not (isinstance(state, tuple) and len(state) == 5):
        raise ValueError("malformed numpy array")
    _, shape, dtype, is_fortran, content = state
    if not isinstance(dtype, np.dtype) or not isinstance(content, bytes):
        raise TypeError("a numpy array that does not hold plain integers")
    if not (
        isinstance(shape, tuple)
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(size) is int and 0 <= size <= _LONGEST_DIMENSION for size in shape)
    ):
        raise ValueError("malformed shape of a numpy array")
    if prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"a numpy array of shape {shape} with {len(content)} bytes of data")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")


_INTERPRETER = PickleInterpreter(
    symbols={
        "numpy.core.multiarray _reconstruct": _reconstruct,
        "numpy._core.multiarray _reconstruct": _reconstruct,
        "numpy dtype": _dtype,
        "numpy ndarray": None,
        "_codecs encode": _encode,
    },
    opcodes=OPCODES - {"BINFLOAT"},
    build=_build,
    most_instructions=_MOST_INSTRUCTIONS,
)
