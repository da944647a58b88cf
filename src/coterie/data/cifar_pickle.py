"""Reads the pickles of CIFAR's python version: plain values and integer numpy arrays.

The unpickler is restricted: it resolves five names, and each of them to a stand-in of this module.
Nothing of Python or numpy can be called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
import warnings
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError

_MOST_INSTRUCTIONS = 1_000_000
"""Several times those of the largest official file; each may make an object."""
_MOST_TUPLES = 10_000
"""Python hashes nested tuples by recursion, so their number is limited."""
_MOST_DIMENSIONS = 8
_LONGEST_DIMENSION = 1 << 31
_SHOWN_CHARACTERS = 200


class _RefusedError(Exception):
    """The pickle asks for something that a file of plain data does not need."""


def read_cifar_pickle(content: bytes, where: str) -> object:
    """Return the plain value pickled in `content`; Python 2 strings come back as bytes."""
    try:
        # Python warns of odd escapes in old texts; damaged files have them.
        with warnings.catch_warnings(action="ignore"):
            _check_instructions(content)
            value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
            return _replace_array(value)
    except _RefusedError as refusal:
        raise DataError(
            f"{where} is more than plain data: {refusal}. The file was not executed. Only dicts, "
            "lists, text, numbers and integer numpy arrays are read. Get the official file, or its "
            "binary version."
        ) from refusal
    except (
        *(pickle.UnpicklingError, struct.error, EOFError, MemoryError, AttributeError),
        *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError),
    ) as damage:
        raise DataError(
            f"{where} is damaged, or is not a pickle of plain data "
            f"({str(damage)[:_SHOWN_CHARACTERS]}). It was not executed. "
            "Replace it with a whole copy of the official file."
        ) from damage


def _check_instructions(content: bytes) -> None:
    """Refuse a pickle whose instructions could exhaust memory or the stack."""
    num_tuples = 0
    for count, (opcode, value, _) in enumerate(pickletools.genops(content), start=1):
        num_tuples += "TUPLE" in opcode.name
        if count > _MOST_INSTRUCTIONS:
            raise _RefusedError(f"it has more than {_MOST_INSTRUCTIONS} instructions")
        if num_tuples > _MOST_TUPLES:
            raise _RefusedError(f"it has more than {_MOST_TUPLES} tuples")
        # Python reserves memory up to the highest position.
        if "PUT" in opcode.name and int(value or 0) > _MOST_INSTRUCTIONS:
            raise ValueError(f"it keeps a value at position {value}")


class _Unpickler(pickle.Unpickler):
    """Resolves only the names that a pickled integer array needs."""

    def find_class(self, module: str, name: str) -> object:
        """Return the stand-in of a name; it has no attributes that a pickle could set."""
        stand_in = _STAND_INS.get(f"{module}.{name}")
        if stand_in is None:
            raise _RefusedError(f"it names '{f'{module}.{name}'[:_SHOWN_CHARACTERS]}'")
        return stand_in

    def persistent_load(self, identifier: object) -> object:
        """Refuse references to data outside the file."""
        raise _RefusedError("it refers to data outside the file")


class _ArrayType:
    """Stands for `numpy.ndarray`, which a pickle only mentions."""

    __slots__ = ()


class _Array:
    """An array whose type, shape and bytes arrive after it is made."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: npt.NDArray[Any] | None = None

    def __setstate__(self, state: object) -> None:
        match state:
            case (_, tuple() as shape, _Dtype() as dtype, is_fortran, bytes() as content):
                pass
            case _:
                raise ValueError("malformed numpy array")
        if not (
            len(shape) <= _MOST_DIMENSIONS
            and all(type(size) is int and 0 <= size <= _LONGEST_DIMENSION for size in shape)
        ):
            raise ValueError("malformed shape of a numpy array")
        if prod(shape) * dtype.value.itemsize != len(content):
            raise ValueError(f"a numpy array of shape {shape} with {len(content)} bytes of data")
        flat = np.frombuffer(content, dtype=dtype.value)
        self.values = flat.reshape(shape, order="F" if is_fortran else "C")


class _Dtype:
    """An integer type of numpy; its byte order arrives after it is made."""

    __slots__ = ("value",)

    def __init__(self, code: str) -> None:
        self.value = np.dtype(code)

    def __setstate__(self, state: object) -> None:
        match state:
            case (_, order, *_) if (text := _text_of(order)) in ("<", ">", "|", "="):
                self.value = np.dtype(text + self.value.str[1:])
            case _:
                raise ValueError("malformed numpy dtype")


class _MakeArray:
    """Stands for numpy's `_reconstruct`."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> _Array:
        match arguments:
            case (_ArrayType(), *_):
                return _Array()
        raise _RefusedError("it calls '_reconstruct' for something other than a numpy array")


class _MakeDtype:
    """Stands for `numpy.dtype`."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> _Dtype:
        code = _text_of(arguments[0])
        if not re.fullmatch("[iu][1248]", code):
            raise _RefusedError(f"it holds numpy arrays of type '{code[:20]}', not integers")
        return _Dtype(code)


class _Encode:
    """Stands for `_codecs.encode`, which Python 3 uses to write bytes for Python 2."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> bytes:
        match arguments:
            case (str() as text, "latin1" | "latin-1" | b"latin1" | b"latin-1"):
                return text.encode("latin-1")
        raise _RefusedError("it calls '_codecs.encode' for something other than latin-1")


_STAND_INS = {
    "numpy.core.multiarray._reconstruct": _MakeArray(),
    "numpy._core.multiarray._reconstruct": _MakeArray(),
    "numpy.ndarray": _ArrayType(),
    "numpy.dtype": _MakeDtype(),
    "_codecs.encode": _Encode(),
}


def _replace_array(value: object) -> object:
    """Return the value with arrays of numpy in the place of their stand-ins, one level deep."""
    if isinstance(value, dict):
        return {key: _replace_array(each) for key, each in value.items()}
    if not isinstance(value, _Array):
        return value
    if value.values is None:
        raise ValueError("a numpy array without its values")
    return value.values


def _text_of(value: object) -> str:
    """Return text that Python 2 may have written as bytes."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value
