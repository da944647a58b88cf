"""Hello: the first message between two peers, and its checks."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.context import PeerContext
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.field_bounds import VERSION
from coterie.peer.wire.methods import parse
from coterie.peer.wire.model import Part
from coterie.peer.wire.payload import Encoding


@dataclass(frozen=True)
class Hello:
    """A peer's hello, received over a connection that proves its key."""

    peer_id: PeerKey
    layout: str
    frozen: str
    """The digest of the frozen part; empty if nothing is frozen."""
    instance: bytes
    encodings: frozenset[Encoding]
    address: wire.SignedAddress


def make_hello(context: PeerContext) -> wire.HelloMessage:
    """Return the hello of this peer."""
    layout = context.layout
    return wire.HelloMessage(
        version=VERSION,
        peer_id=bytes.fromhex(context.identity.peer_id),
        layout=bytes.fromhex(layout.fingerprint),
        instance=context.address_book.instance,
        largest_payload=len(Part) * (layout.num_bytes + 2**20),
        encodings=sorted(context.encodings),  # type: ignore[arg-type]
        address=context.address_book.my_record,
        frozen=bytes.fromhex(context.frozen_digest) or None,
    )


def read_hello(message: wire.HelloMessage) -> Hello:
    """Return a peer's hello; whether its claims are true is not checked here."""
    known = {int(encoding) for encoding in Encoding}
    return Hello(
        peer_id=message.peer_id.hex(),
        layout=message.layout.hex(),
        frozen=message.frozen.hex(),
        instance=message.instance,
        encodings=frozenset(Encoding(each) for each in message.encodings if each in known),
        address=message.address,
    )


def require_owner(hello: Hello, peer_id: PeerKey) -> None:
    """Refuse a hello for another key than that of the connection."""
    if hello.peer_id != peer_id:
        raise Refused(Reason.UNTRUSTED, "a hello in the name of another key")
    record = parse(wire.AddressRecord, hello.address.record)
    if record.peer_id.hex() != peer_id or record.instance != hello.instance:
        raise Refused(Reason.MALFORMED, "a hello with the address of another peer")
