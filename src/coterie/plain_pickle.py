"""Reads the plain values of a pickle without executing it.

A pickle is a program that can call anything. This interpreter builds dicts, lists, tuples, numbers,
text and bytes by itself, and calls only the handlers its user gave it by name; it imports nothing.
"""

from __future__ import annotations

import pickletools
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

_SHOWN_CHARACTERS = 200


class RefusedPickleError(ValueError):
    """A pickle that asks for something other than plain values and the allowed symbols."""


class UnknownSymbolError(RefusedPickleError):
    """A pickle that names a symbol, as "module name", that its reader has no use for."""

    def __init__(self, name: str) -> None:
        self.name = name[:_SHOWN_CHARACTERS]
        super().__init__(f"it names '{self.name}', which such a file does not need")


class DamagedPickleError(ValueError):
    """A pickle that is cut off or makes no sense."""


@dataclass(frozen=True)
class Symbol:
    """A global that a pickle names, as "module name"; never the object itself."""

    name: str


def text_of(value: object) -> str:
    """Return text that python 2 may have written as bytes."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value


def refused_instruction(what: str) -> RefusedPickleError:
    """Return the refusal of an instruction, such as "NEWOBJ"."""
    return RefusedPickleError(f"it uses the pickle instruction {what}")


class _Machine:
    """The stack, marks and memo of one pickle, with one method per kind of instruction."""

    def __init__(self, rules: PickleInterpreter) -> None:
        self.rules = rules
        self.stack: list[object] = []
        # As in pickle itself, MARK sets the current stack aside until the matching instruction.
        self.outer: list[list[object]] = []
        self.memo: dict[int, object] = {}
        # What BUILD replaced, kept alive so that its id stays its own: {id: (before, after)}.
        self.built: dict[int, tuple[object, object]] = {}

    def result(self) -> object:
        if len(self.stack) != 1 or self.outer:
            raise ValueError("it does not come to one value")
        return self.stack[0]

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self, count: int) -> list[object]:
        if len(self.stack) < count:
            raise ValueError("it takes more values than it has")
        start = len(self.stack) - count
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def set_mark(self) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def pop_to_mark(self) -> list[object]:
        if not self.outer:
            raise ValueError("it looks for a mark that it did not set")
        values = self.stack
        self.stack = self.outer.pop()
        return values

    def put(self, index: object) -> None:
        self.memo[_memo_index(index)] = self.stack[-1]

    def get(self, index: object) -> None:
        if _memo_index(index) not in self.memo:
            raise ValueError("it recalls a value that it did not keep")
        value = self.memo[_memo_index(index)]
        _, value = self.built.get(id(value), (value, value))
        self.push(value)

    def fill_list(self, values: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("it appends to something that is not a list")
        target.extend(values)

    def fill_dict(self, values: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("it sets items of something that is not a dict")
        target.update(_pairs(values))

    def name_symbol(self, name: str) -> None:
        if name not in self.rules.symbols:
            raise UnknownSymbolError(name)
        self.push(Symbol(name))

    def name_stacked_symbol(self) -> None:
        module, attribute = self.pop(2)
        self.name_symbol(f"{text_of(module)} {text_of(attribute)}")

    def call(self) -> None:
        symbol, arguments = self.pop(2)
        name = symbol.name if isinstance(symbol, Symbol) else type(symbol).__name__
        handler = self.rules.symbols[name] if isinstance(symbol, Symbol) else None
        if handler is None:
            raise refused_instruction(f"REDUCE on '{name}', which is not a known function")
        if not isinstance(arguments, tuple):
            raise TypeError(f"it calls '{name}' without a tuple of arguments")
        self.push(handler(*arguments))

    def build(self) -> None:
        if self.rules.build is None:
            raise refused_instruction("BUILD")
        before, state = self.pop(2)
        after = self.rules.build(before, state)
        if after is not before:
            self.built[id(before)] = (before, after)
        self.push(after)

    def refer(self) -> None:
        if self.rules.persistent is None:
            raise refused_instruction("BINPERSID")
        (identifier,) = self.pop(1)
        self.push(self.rules.persistent(identifier))


def _pairs(values: list[object]) -> dict[object, object]:
    """Return {key: value} of alternating values; plain keys only, since hashing tuples recurses."""
    keys = values[::2]
    if len(values) % 2 or not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("malformed dict")
    return dict(zip(keys, values[1::2], strict=True))


def _memo_index(value: object) -> int:
    """Return a memo position, which python 2 wrote as text."""
    if not isinstance(value, int | str):
        raise TypeError("a memo position was expected")
    return int(value)


_LITERALS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)

# What each instruction does with the machine and the value that the instruction carries, if any.
_INSTRUCTIONS: dict[str, Callable[[_Machine, object], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, value: None),
    **dict.fromkeys(_LITERALS, lambda machine, value: machine.push(value)),
    **dict.fromkeys(
        ("STRING", "BINSTRING", "SHORT_BINSTRING"),
        lambda machine, value: machine.push(text_of(value).encode("latin-1")),
    ),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, value: machine.put(value)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, value: machine.get(value)),
    "MEMOIZE": lambda machine, value: machine.put(len(machine.memo)),
    "NONE": lambda machine, value: machine.push(None),
    "NEWTRUE": lambda machine, value: machine.push(True),
    "NEWFALSE": lambda machine, value: machine.push(False),
    "MARK": lambda machine, value: machine.set_mark(),
    "POP": lambda machine, value: machine.pop(1).clear(),
    "EMPTY_DICT": lambda machine, value: machine.push({}),
    "EMPTY_LIST": lambda machine, value: machine.push([]),
    "EMPTY_TUPLE": lambda machine, value: machine.push(()),
    "TUPLE1": lambda machine, value: machine.push(tuple(machine.pop(1))),
    "TUPLE2": lambda machine, value: machine.push(tuple(machine.pop(2))),
    "TUPLE3": lambda machine, value: machine.push(tuple(machine.pop(3))),
    "TUPLE": lambda machine, value: machine.push(tuple(machine.pop_to_mark())),
    "LIST": lambda machine, value: machine.push(machine.pop_to_mark()),
    "DICT": lambda machine, value: machine.push(_pairs(machine.pop_to_mark())),
    "APPEND": lambda machine, value: machine.fill_list(machine.pop(1)),
    "APPENDS": lambda machine, value: machine.fill_list(machine.pop_to_mark()),
    "SETITEM": lambda machine, value: machine.fill_dict(machine.pop(2)),
    "SETITEMS": lambda machine, value: machine.fill_dict(machine.pop_to_mark()),
    "GLOBAL": lambda machine, value: machine.name_symbol(text_of(value)),
    "STACK_GLOBAL": lambda machine, value: machine.name_stacked_symbol(),
    "REDUCE": lambda machine, value: machine.call(),
    "BUILD": lambda machine, value: machine.build(),
    "BINPERSID": lambda machine, value: machine.refer(),
}

OPCODES = frozenset(_INSTRUCTIONS)


@dataclass(frozen=True)
class PickleInterpreter:
    """Turns pickles into values; whatever its fields do not provide for is refused.

    Fields:
        symbols: for each "module name" a pickle may mention, what calling it does; None where it
            may only be mentioned.
        opcodes: the instructions a pickle may use, out of OPCODES.
        persistent: turns a persistent id into a value.
        build: turns an object and its state into the object that results.
        most_instructions: bounds time and memory, since one byte can make a whole object.
    """

    symbols: Mapping[str, Callable[..., object] | None]
    opcodes: frozenset[str] = OPCODES
    persistent: Callable[[object], object] | None = None
    build: Callable[[object, object], object] | None = None
    most_instructions: int = 10_000_000

    def read(self, stream: IO[bytes]) -> object:
        """Return the value of the pickle at the stream's position; python 2 strings are bytes.

        Raises only RefusedPickleError and DamagedPickleError, unless a handler has its own errors.
        A length that the pickle claims is read at once, so the stream is best in memory.
        """
        try:
            # What python reads as an old text may hold escapes that python warns of.
            with warnings.catch_warnings(action="ignore"):
                return self._run(stream)
        except RefusedPickleError:
            raise
        except (
            *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError),
            struct.error,
        ) as problem:
            raise DamagedPickleError(str(problem)[:_SHOWN_CHARACTERS]) from problem

    def _run(self, stream: IO[bytes]) -> object:
        machine = _Machine(self)
        for count, (opcode, value, _) in enumerate(pickletools.genops(stream), start=1):
            if opcode.name not in self.opcodes:
                raise refused_instruction(opcode.name)
            if count > self.most_instructions:
                raise RefusedPickleError(f"it has more than {self.most_instructions} instructions")
            _INSTRUCTIONS[opcode.name](machine, value)
        return machine.result()
