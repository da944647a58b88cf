"""The calls of the protocol: the table from which server and client are built."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire import field_bounds
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.payload import CHUNK_BYTES

SERVICE = "coterie.peer.v1.Peer"
REQUEST_BYTES = 2**16
REPLY_BYTES = CHUNK_BYTES + 2**16
"""Largest message: a chunk and what surrounds it."""

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)
KnownNumber = TypeVar("KnownNumber", bound=IntEnum)
AnyMessage = TypeVar("AnyMessage", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Reply]):
    """One call: its name and the types of its request and reply."""

    name: str
    request: type[Request]
    reply: type[Reply]

    @property
    def path(self) -> str:
        """Return the name of the call in gRPC."""
        return f"/{SERVICE}/{self.name}"


HELLO = Method("Hello", wire.HelloMessage, wire.HelloMessage)
EXCHANGE_ADDRESSES = Method("ExchangeAddresses", wire.AddressList, wire.AddressList)
AWAIT = Method("Await", wire.AwaitRequest, wire.StatusMessage)
GET_MANIFEST = Method("GetManifest", wire.ManifestRequest, wire.Manifest)
PULL_MODEL = Method("PullModel", wire.PullRequest, wire.Chunk)
ASK_SCORE = Method("AskScore", wire.ScoreRequest, wire.ScoreReply)
PUSH = Method("Push", wire.PushRequest, wire.PushReply)
TELL = Method("Tell", wire.TellRequest, wire.TellReply)
GOODBYE = Method("Goodbye", wire.GoodbyeMessage, wire.GoodbyeReply)


def parse(kind: type[AnyMessage], data: bytes) -> AnyMessage:
    """Parse and check a message from outside; refuse unreadable or invalid ones."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise Refused(Reason.MALFORMED, f"these bytes are no {kind.DESCRIPTOR.name}") from None
    field_bounds.require(message)
    return message


def parse_enum(kind: type[KnownNumber], number: int) -> KnownNumber:
    """Return the member of an enumeration; refuse a number that does not exist."""
    try:
        return kind(number)
    except ValueError:
        raise Refused(Reason.MALFORMED, f"there is no {kind.__name__} {number}") from None
