"""Every field of every message of the protocol at its extremes, found by way of its descriptors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.payload import Encoding

WHOLE = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
REAL = (0.0, -0.0, 5e-324, 1.0, -1.0, 2.0, 1e308, -1e308, math.nan, math.inf, -math.inf)
TEXTS = (
    "",
    "a",
    "x" * 50_000,
    "\x00",
    "a\r\nb\x1b[31m",
    "\u202e漢字 ü",
    "%s%00%n",
    "\U0001f600" * 99,
)
BYTES = (b"", b"\x00", bytes(15), bytes(16), bytes(31), bytes(32), bytes(33), b"\xff" * 50_000)
ENUMERATED = (0, 1, 2, 3, 4, -1, 2**31 - 1, -(2**31))
HUNDRED_YEARS = 100 * 365 * 24 * 3600 * 1000
MANY = 300
LEFT_OUT = "left out"
"""Stands for a field that is not there."""

_LIMITS = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_VALUES: dict[int, tuple[Any, ...]] = {
    FieldDescriptor.TYPE_DOUBLE: REAL,
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BYTES: BYTES,
    FieldDescriptor.TYPE_ENUM: ENUMERATED,
    FieldDescriptor.TYPE_BOOL: (False, True),
}
"""A field of another type has no extremes yet: add them here."""


@dataclass(frozen=True)
class Case:
    """One field with one value; the path leads to it from the outermost message."""

    kind: str
    """The message that the field belongs to."""
    path: tuple[str, ...]
    value: Any

    @property
    def field(self) -> str:
        return self.path[-1]

    def __str__(self) -> str:
        shown = ascii(self.value)
        return f"{self.kind}.{self.field} = {shown if len(shown) < 60 else shown[:57] + '...'}"

    def put_into(self, honest: Message) -> Message:
        """Return a copy of an honest message with this value in it."""
        changed = type(honest)()
        changed.CopyFrom(honest)
        *way, name = self.path
        inner: Any = changed
        for step in way:
            inner = getattr(inner, step)
            if not isinstance(inner, Message):  # a list: its first entry
                inner = inner[0]
        if isinstance(self.value, str) and self.value == LEFT_OUT:
            inner.ClearField(name)
        elif isinstance(self.value, Repeated):
            values = self.value.change(list(getattr(inner, name)))
            inner.ClearField(name)
            getattr(inner, name).extend(values)
        else:
            setattr(inner, name, self.value)
        return changed


@dataclass(frozen=True)
class Repeated:
    """What becomes of an honest list."""

    name: str
    change: Callable[[list[Any]], list[Any]]

    def __repr__(self) -> str:
        return self.name


LISTS = (
    Repeated("empty", lambda values: []),
    Repeated("backwards", lambda values: values[::-1]),
    Repeated("twice", lambda values: values * 2),
    Repeated("many", lambda values: (values * MANY)[:MANY]),
)
NUMBERS = (
    *(Repeated(f"only {number}", lambda values, number=number: [number]) for number in range(4)),
    *(
        Repeated(f"with {number}", lambda values, number=number: [*values, number])
        for number in (4, 99, -1, 2**31 - 1, -(2**31))
    ),
)


def cases_of(kind: Descriptor, way: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield all extremes of a message's fields, and of those of the messages within it."""
    for field in kind.fields:
        path = (*way, field.name)
        for value in values_of(field):
            yield Case(kind.name, path, value)
        if field.message_type is not None:
            yield from cases_of(field.message_type, path)


def values_of(field: FieldDescriptor) -> tuple[Any, ...]:
    """Return the extremes of a field."""
    if field.is_repeated:
        return (*LISTS, *(NUMBERS if field.enum_type is not None else ()))
    if field.message_type is not None:
        return (LEFT_OUT,)
    if field.type in _LIMITS:
        low, high = _LIMITS[field.type]
        values = tuple(value for value in WHOLE if low <= value <= high)
    else:
        values = _VALUES[field.type]
    return (*values, LEFT_OUT) if field.has_presence else values


def kinds_within(kind: Descriptor) -> set[str]:
    """Return the names of a message and of all messages within it."""
    inner = [field.message_type for field in kind.fields if field.message_type is not None]
    return {kind.name}.union(*(kinds_within(each) for each in inner))


ALL_KINDS = frozenset(wire.DESCRIPTOR.message_types_by_name)


Fits = Callable[[Any], bool]


def always(_: Any) -> bool:
    return True


def never(_: Any) -> bool:
    return False


def is_round(value: Any) -> bool:
    return value == LEFT_OUT or 0 <= value < 2**31


def is_named(*names: str) -> Fits:
    return lambda value: isinstance(value, Repeated) and value.name in names


def is_instance(value: bytes) -> bool:
    return len(value) == 16


FITS: dict[str, Fits] = {
    "HelloMessage.version": lambda value: value == 1,
    "HelloMessage.peer_id": never,
    "HelloMessage.layout": lambda value: len(value) == 32,
    "HelloMessage.frozen": lambda value: value == LEFT_OUT or len(value) == 32,
    "HelloMessage.instance": never,
    "HelloMessage.largest_payload": always,
    "HelloMessage.encodings": lambda value: value.name != "many",
    "HelloMessage.address": never,
    "SignedAddress.record": never,
    "SignedAddress.signature": never,
    "AddressRecord.peer_id": lambda value: len(value) == 32,  # a stranger's, which is passed over
    "AddressRecord.address": never,
    "AddressRecord.sequence": lambda value: value < 2**63,
    "AddressRecord.instance": is_instance,
    "AddressRecord.name": lambda value: len(value) < 500,  # a record has at most 1 KiB
    "AddressList.addresses": lambda value: value.name != "many",
    "AwaitRequest.round": is_round,
    "AwaitRequest.phase": lambda value: value in (0, 1, 2),
    "AwaitRequest.wait_milliseconds": always,
    "StatusMessage.round": is_round,
    "StatusMessage.phase": lambda value: value in (0, 1, 2),
    "StatusMessage.published": always,
    "StatusMessage.published_round": is_round,
    "StatusMessage.instance": is_instance,
    "ManifestRequest.round": lambda value: value == LEFT_OUT,  # others are not, or no longer, there
    "ManifestRequest.parts": is_named("backwards", "only 0", "only 1"),
    "ManifestRequest.encoding": lambda value: value in tuple(Encoding),
    "ManifestRequest.wait_milliseconds": always,
    "Manifest.digest": never,
    "Manifest.size": never,
    "Manifest.round": is_round,
    "Manifest.age_milliseconds": lambda value: value <= HUNDRED_YEARS,
    "Manifest.num_samples": lambda value: 1 <= value < 2**31,
    "Manifest.encoding": lambda value: value == 0,
    "Manifest.parts": is_named("backwards"),
    "PullRequest.digest": never,
    "PullRequest.offset": lambda value: value in (0, 1),
    "Chunk.offset": lambda value: value == 0,
    "Chunk.data": never,
    "ScoreRequest.manifest": never,
    "ScoreRequest.metric": never,
    "ScoreRequest.round": is_round,
    "ScoreReply.value": lambda value: value == LEFT_OUT or value >= 0,
    "PushRequest.manifest": never,
    "PushRequest.round": is_round,
    "TellRequest.value": lambda value: 0 <= value <= 1,
    "TellRequest.round": is_round,
    "GoodbyeMessage.instance": never,
}
"""What may be accepted of a field, of the extremes that are tried.

This is said here once more, and not taken from the table that peers go by.
"""


def fits(case: Case) -> bool:
    if case.path == ("manifest", "parts"):
        return case.value.name in ("backwards", "only 0")  # of one part, which is the model
    return FITS[f"{case.kind}.{case.field}"](case.value)
