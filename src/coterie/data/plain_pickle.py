"""Reads the plain data of pickled files without executing them.

A pickle is a program that can call anything. This interpreter knows only how to build dicts,
lists, tuples, numbers, text, bytes and integer numpy arrays; it imports and calls nothing.
"""

from __future__ import annotations

import pickletools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError

_RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_KNOWN_SYMBOLS = (*_RECONSTRUCT, "numpy ndarray", "numpy dtype", "_codecs encode")
_MOST_DIMENSIONS = 8
_LONGEST_DIMENSION = 1 << 31


def read_plain_pickle(content: bytes, where: str) -> object:
    """Return the plain value pickled in `content`; python 2 strings come back as bytes."""
    reader = _Reader(where)
    try:
        for opcode, argument, _ in pickletools.genops(content):
            reader.step(opcode.name, argument)
        return reader.result()
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error) as problem:
        raise DataError(
            f"{where} is damaged or no pickle of plain data ({str(problem)[:200]}); it was not "
            "executed. Replace it with a whole copy of the official file."
        ) from problem


@dataclass(frozen=True)
class _Symbol:
    """The name of something a real unpickler would import."""

    name: str


@dataclass
class _PendingDtype:
    """An integer type whose byte order arrives with BUILD."""

    code: str
    order: str = "="

    def build(self, state: object) -> _PendingDtype:
        if not (isinstance(state, tuple) and len(state) >= 2):
            raise ValueError("malformed numpy dtype")
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise ValueError("unknown byte order of a numpy dtype")
        self.order = order
        return self


@dataclass
class _PendingArray:
    """An array whose shape and bytes arrive with BUILD; the memo may hold it before that."""

    array: npt.NDArray[Any] | None = None

    def build(self, state: object) -> npt.NDArray[Any]:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise ValueError("malformed numpy array")
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _PendingDtype) or not isinstance(content, bytes):
            raise TypeError("a numpy array that does not hold plain integers")
        if not (
            isinstance(shape, tuple)
            and len(shape) <= _MOST_DIMENSIONS
            and all(type(size) is int and 0 <= size <= _LONGEST_DIMENSION for size in shape)
        ):
            raise ValueError("malformed shape of a numpy array")
        kind = np.dtype(dtype.order + dtype.code)
        if prod(shape) * kind.itemsize != len(content):
            raise ValueError(f"a numpy array of shape {shape} with {len(content)} bytes of data")
        flat = np.frombuffer(content, dtype=kind)
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")
        return self.array


class _Reader:
    """The stack machine: one `step` per opcode."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}
        # As in pickle itself, MARK sets the current stack aside until the matching opcode.
        self.outer: list[list[object]] = []

    def result(self) -> object:
        if len(self.stack) != 1 or self.outer:
            raise ValueError("it does not end with exactly one value")
        return self.stack[0]

    def step(self, name: str, argument: object) -> None:
        """Execute one opcode; `argument` is None unless the opcode carries a value itself."""
        if name not in _HANDLERS:
            self.refuse(f"the opcode {name}")
        _HANDLERS[name](self, argument)

    def refuse(self, what: str) -> NoReturn:
        raise DataError(
            f"{self.where} uses {what}, which plain data does not need. The file was not executed. "
            "Only dicts, lists, text, numbers and integer numpy arrays are read; get the official "
            "file, or its binary version."
        )

    def pop_many(self, count: int) -> list[object]:
        if len(self.stack) < count:
            raise ValueError("an opcode finds too few values")
        start = len(self.stack) - count
        popped = self.stack[start:]
        del self.stack[start:]
        return popped

    def pop_to_mark(self) -> list[object]:
        if not self.outer:
            raise ValueError("an opcode finds no MARK")
        popped = self.stack
        self.stack = self.outer.pop()
        return popped

    def set_mark(self) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def push(self, value: object) -> None:
        self.stack.append(value)

    def put(self, index: object) -> None:
        self.memo[_index(index)] = self.stack[-1]

    def get(self, index: object) -> None:
        value = self.memo[_index(index)]
        if isinstance(value, _PendingArray) and value.array is not None:
            value = value.array
        self.push(value)

    def extend_list(self, items: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("APPEND to something that is no list")
        target.extend(items)

    def update_dict(self, items: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("SETITEM on something that is no dict")
        target.update(_pairs(items))

    def symbol(self, name: str) -> None:
        if name not in _KNOWN_SYMBOLS:
            self.refuse(f"the symbol '{name.replace(' ', '.')[:100]}'")
        self.push(_Symbol(name))

    def stack_symbol(self) -> None:
        module, attribute = self.pop_many(2)
        self.symbol(f"{_text(module)} {_text(attribute)}")

    def reduce(self) -> None:
        function, arguments = self.pop_many(2)
        name = function.name if isinstance(function, _Symbol) else type(function).__name__
        if not isinstance(arguments, tuple):
            raise TypeError("malformed arguments of REDUCE")
        match (name, *arguments):
            case (_, _Symbol("numpy ndarray"), *_) if name in _RECONSTRUCT:
                self.push(_PendingArray())
            case ("numpy dtype", (str() | bytes()) as code, *_):
                if not re.fullmatch("[iu][1248]", _text(code)):
                    self.refuse(f"numpy arrays of type '{_text(code)[:20]}' rather than integers")
                self.push(_PendingDtype(_text(code)))
            case ("_codecs encode", str() as text, ("latin1" | "latin-1" | b"latin1" | b"latin-1")):
                self.push(text.encode("latin-1"))
            case _:
                self.refuse(f"the opcode REDUCE on '{name}'")

    def build(self) -> None:
        pending, state = self.pop_many(2)
        if not isinstance(pending, _PendingArray | _PendingDtype):
            self.refuse("the opcode BUILD on something other than a numpy array")
        self.push(pending.build(state))


def _pairs(items: list[object]) -> dict[object, object]:
    """Return {key: value} of alternating items; plain keys only, since hashing tuples recurses."""
    keys = items[::2]
    if len(items) % 2 or not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("malformed dict")
    return dict(zip(keys, items[1::2], strict=True))


def _index(value: object) -> int:
    """Return a memo position, which python 2 wrote as text."""
    if not isinstance(value, int | str):
        raise TypeError("a memo position was expected")
    return int(value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value


_Handler = Callable[[_Reader, object], None]

_LITERALS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)

_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda reader, argument: None),
    **dict.fromkeys(_LITERALS, lambda reader, argument: reader.push(argument)),
    **dict.fromkeys(
        ("STRING", "BINSTRING", "SHORT_BINSTRING"),
        lambda reader, argument: reader.push(_text(argument).encode("latin-1")),
    ),
    **dict.fromkeys(
        ("PUT", "BINPUT", "LONG_BINPUT"), lambda reader, argument: reader.put(argument)
    ),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda reader, argument: reader.get(argument)
    ),
    "MEMOIZE": lambda reader, argument: reader.put(len(reader.memo)),
    "NONE": lambda reader, argument: reader.push(None),
    "NEWTRUE": lambda reader, argument: reader.push(True),
    "NEWFALSE": lambda reader, argument: reader.push(False),
    "MARK": lambda reader, argument: reader.set_mark(),
    "POP": lambda reader, argument: reader.pop_many(1).clear(),
    "EMPTY_DICT": lambda reader, argument: reader.push({}),
    "EMPTY_LIST": lambda reader, argument: reader.push([]),
    "EMPTY_TUPLE": lambda reader, argument: reader.push(()),
    "TUPLE1": lambda reader, argument: reader.push(tuple(reader.pop_many(1))),
    "TUPLE2": lambda reader, argument: reader.push(tuple(reader.pop_many(2))),
    "TUPLE3": lambda reader, argument: reader.push(tuple(reader.pop_many(3))),
    "TUPLE": lambda reader, argument: reader.push(tuple(reader.pop_to_mark())),
    "LIST": lambda reader, argument: reader.push(list(reader.pop_to_mark())),
    "DICT": lambda reader, argument: reader.push(_pairs(reader.pop_to_mark())),
    "APPEND": lambda reader, argument: reader.extend_list(reader.pop_many(1)),
    "APPENDS": lambda reader, argument: reader.extend_list(reader.pop_to_mark()),
    "SETITEM": lambda reader, argument: reader.update_dict(reader.pop_many(2)),
    "SETITEMS": lambda reader, argument: reader.update_dict(reader.pop_to_mark()),
    "GLOBAL": lambda reader, argument: reader.symbol(_text(argument)),
    "STACK_GLOBAL": lambda reader, argument: reader.stack_symbol(),
    "REDUCE": lambda reader, argument: reader.reduce(),
    "BUILD": lambda reader, argument: reader.build(),
}
