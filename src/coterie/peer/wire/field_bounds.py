"""The allowed values of every field of every message from outside.

Each message is checked against this table before it is used. Hence no number is used that does not
fit into the tables of a run or the weights of a merge.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from google.protobuf.message import Message

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Part, Phase
from coterie.peer.wire.payload import Encoding

VERSION = 1
ID_BYTES = 32
DIGEST_BYTES = 32
INSTANCE_BYTES = 16
LARGEST_ROUND = 2**31 - 1
"""Records hold rounds as int32: enough for 24 days at a thousand rounds a second."""
LARGEST_AGE_MILLISECONDS = 100 * 365 * 24 * 3600 * 1000
"""A hundred years: ages are measured from the start of a process."""
LARGEST_SAMPLES = 2**31 - 1
LARGEST_SEQUENCE = 2**63 - 1
LARGEST_ADDRESS = 255
LARGEST_RECORD_BYTES = 1024
LARGEST_SIGNATURE_BYTES = 80
LONGEST_METRIC = 32
MOST_RECORDS = 256
MOST_ENCODINGS = 16


@dataclass(frozen=True)
class IntegerRange:
    """A whole number in a range, both ends included."""

    low: int
    high: int
    reason: Reason = Reason.MALFORMED

    def require(self, value: int, name: str) -> None:
        """Refuse a number outside the range."""
        if not self.low <= value <= self.high:
            expected = f"{self.low} to {self.high}" if self.low < self.high else str(self.low)
            raise Refused(self.reason, f"{name} is {value}, expected {expected}")


@dataclass(frozen=True)
class NumberRange:
    """A number in a range, both ends included; NaN is refused."""

    low: float
    high: float

    def require(self, value: float, name: str) -> None:
        """Refuse a number outside the range."""
        is_finite = math.isfinite(value)
        if math.isnan(value) or not (is_finite or self.low <= value <= self.high):
            raise Refused(Reason.NOT_FINITE, f"{name} is {value}")
        if not self.low <= value <= self.high:
            detail = f"{name} is {value:.6g}, expected {self.low:g} to {self.high:g}"
            raise Refused(Reason.MALFORMED, detail)


@dataclass(frozen=True)
class LengthRange:
    """Bytes or text with a length in a range, both ends included."""

    low: int
    high: int

    def require(self, value: bytes | str, name: str) -> None:
        """Refuse any other length."""
        if not self.low <= len(value) <= self.high:
            expected = f"{self.low} to {self.high}" if self.low < self.high else str(self.low)
            raise Refused(Reason.MALFORMED, f"{name} is {len(value)} long, expected {expected}")


@dataclass(frozen=True)
class EnumValue:
    """A number of an enumeration; messages from outside may hold any."""

    kind: type[IntEnum]

    def require(self, value: int, name: str) -> None:
        """Refuse a number that does not exist."""
        if value not in set(self.kind):
            detail = f"{name} is {value}: there is no such {self.kind.__name__.lower()}"
            raise Refused(Reason.MALFORMED, detail)


@dataclass(frozen=True)
class NestedMessage:
    """A message within a message."""

    def require(self, value: Message, name: str) -> None:
        """Check it against the table, too; a missing one has none of its fields."""
        require(value)


@dataclass(frozen=True)
class Unchecked:
    """Any value is accepted here."""

    why: str
    """Where it is checked instead, or why no value can do harm."""

    def require(self, value: Any, name: str) -> None:
        """Accept it."""


Rule: TypeAlias = IntegerRange | NumberRange | LengthRange | EnumValue | NestedMessage | Unchecked


@dataclass(frozen=True)
class ListRule:
    """A list with a length in a range, perhaps of distinct entries."""

    each: Rule
    low: int
    high: int
    are_distinct: bool = False

    def require(self, values: Iterable[Any], name: str) -> None:
        """Refuse a list of another length, a wrong entry, or a repeated one."""
        found = list(values)
        if len(found) > self.high:
            detail = f"{name} has {len(found)} entries, at most {self.high} are allowed"
            raise Refused(Reason.TOO_LARGE, detail)
        if len(found) < self.low:
            raise Refused(
                Reason.MALFORMED, f"{name} has {len(found)} entries, at least {self.low} are needed"
            )
        for value in found:
            self.each.require(value, name)
        if self.are_distinct and len(set(found)) != len(found):
            raise Refused(Reason.MALFORMED, f"{name} has an entry twice")


ROUND = IntegerRange(0, LARGEST_ROUND)
FINITE = NumberRange(-sys.float_info.max, sys.float_info.max)
WAIT = Unchecked("a wait ends with the deadline of the call, and that is bounded")
INSTANCE = LengthRange(INSTANCE_BYTES, INSTANCE_BYTES)
DIGEST = LengthRange(DIGEST_BYTES, DIGEST_BYTES)
PARTS = ListRule(EnumValue(Part), 1, len(Part), are_distinct=True)

BOUNDS: Mapping[str, Mapping[str, Rule | ListRule]] = {
    "HelloMessage": {
        "version": IntegerRange(VERSION, VERSION, Reason.WRONG_VERSION),
        "peer_id": LengthRange(ID_BYTES, ID_BYTES),
        "layout": LengthRange(DIGEST_BYTES, DIGEST_BYTES),
        "instance": INSTANCE,
        "largest_payload": Unchecked("informative: the receiver's layout decides about a payload"),
        "encodings": ListRule(Unchecked("unknown ones are ignored"), 0, MOST_ENCODINGS),
        "address": NestedMessage(),
        "frozen": DIGEST,
    },
    "SignedAddress": {
        "record": LengthRange(1, LARGEST_RECORD_BYTES),
        "signature": LengthRange(0, LARGEST_SIGNATURE_BYTES),
    },
    "AddressRecord": {
        "peer_id": LengthRange(ID_BYTES, ID_BYTES),
        "address": LengthRange(1, LARGEST_ADDRESS),
        "sequence": IntegerRange(0, LARGEST_SEQUENCE),
        "instance": INSTANCE,
        "name": Unchecked("a claim: made safe to print, and used for nothing"),
    },
    "AddressList": {"addresses": ListRule(NestedMessage(), 0, MOST_RECORDS)},
    "AwaitRequest": {"round": ROUND, "phase": EnumValue(Phase), "wait_milliseconds": WAIT},
    "StatusMessage": {
        "round": ROUND,
        "phase": EnumValue(Phase),
        "published": Unchecked("both values have a meaning"),
        "published_round": ROUND,
        "instance": INSTANCE,
    },
    "ManifestRequest": {
        "round": ROUND,
        "parts": PARTS,
        "encoding": EnumValue(Encoding),
        "wait_milliseconds": WAIT,
    },
    "Manifest": {
        "digest": DIGEST,
        "size": Unchecked("the layout determines it exactly: see Decoder"),
        "round": ROUND,
        "age_milliseconds": IntegerRange(0, LARGEST_AGE_MILLISECONDS),
        "num_samples": IntegerRange(1, LARGEST_SAMPLES),
        "encoding": EnumValue(Encoding),
        "parts": PARTS,
    },
    "PullRequest": {
        "digest": DIGEST,
        "offset": Unchecked("the payload determines its range: see Payload.chunks"),
    },
    "Chunk": {
        "offset": Unchecked("the bytes so far determine it exactly: see receive_chunks"),
        "data": Unchecked("1 byte to 1 MiB: see receive_chunks; each access would make a copy"),
    },
    "ScoreRequest": {
        "manifest": NestedMessage(),
        "metric": LengthRange(0, LONGEST_METRIC),
        "round": ROUND,
    },
    # A loss may be infinite: of a model that has diverged.
    "ScoreReply": {"value": NumberRange(0.0, math.inf)},
    "PushRequest": {"manifest": NestedMessage(), "round": ROUND},
    "PushReply": {},
    # A strategy often accepts less, see Strategy.report_range.
    "TellRequest": {"value": FINITE, "round": ROUND},
    "TellReply": {},
    "GoodbyeMessage": {"instance": INSTANCE},
    "GoodbyeReply": {},
}


def require(message: Message) -> None:
    """Refuse a message with a field outside its bounds."""
    kind = message.DESCRIPTOR
    rules = BOUNDS[kind.name]
    for field in kind.fields:
        rule = rules[field.name]
        is_optional = field.has_presence and field.message_type is None
        is_left_out = is_optional and not message.HasField(field.name)
        if is_left_out or isinstance(rule, Unchecked):
            continue
        rule.require(getattr(message, field.name), f"{kind.name}.{field.name}")
