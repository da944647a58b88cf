"""Calls to addresses whose peer is unknown: identifies it, also if it has this peer's key."""

from __future__ import annotations

from contextlib import suppress

from coterie.peer.discovery.addresses import open_address
from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.calls import Calls, Deadline
from coterie.peer.transport.hello import Hello, make_hello, read_hello, require_owner
from coterie.peer.types import PeerKey
from coterie.peer.wire.methods import HELLO


async def identify_peer(calls: Calls, address: str) -> PeerKey | None:
    """Return the id of the peer at an address; None for this peer itself.

    The first connection accepts all trusted certificates, so it proves only that the peer has one
    of them. The id it claims counts after a second connection that accepts this key alone.
    """
    context = calls.context
    try:
        own = context.identity.certificate_pem
        claimed = (await _greet(calls, address, own + context.trust.roots())).peer_id
        if claimed == context.identity.peer_id:
            await _meet_myself(calls, address)
            return None
        certificate = context.trust.get(claimed)
        if certificate is None or not certificate.is_valid:
            raise Refused(
                Reason.UNTRUSTED,
                f"The peer at {address} shows a certificate that this peer does not trust. "
                "Compare ids with its owner, then run: coterie peer trust FILE",
            )
        hello = await _greet(calls, address, certificate.pem)
        require_owner(hello, claimed)
    except Refused as refused:
        context.failures.count(address, refused.reason)
        raise
    context.address_book.add_records([hello.address])
    context.address_book.mark_present(claimed, hello.instance)
    return claimed


async def search_duplicate(calls: Calls) -> None:
    """Check whether another process with this peer's key runs at the reported address."""
    address_book = calls.context.address_book
    if address_book.duplicate is None:
        return
    with suppress(Refused):  # no process with this key is there: the report was of an earlier start
        await _meet_myself(calls, address_book.duplicate.address)
    address_book.outrank_duplicate()


async def _meet_myself(calls: Calls, address: str) -> None:
    context = calls.context
    hello = await _greet(calls, address, context.identity.certificate_pem)
    require_owner(hello, context.identity.peer_id)
    context.address_book.handle_duplicate(
        open_address(hello.address, context.trust, context.identity)
    )


async def _greet(calls: Calls, address: str, roots: bytes) -> Hello:
    deadline = Deadline(calls.context.settings.deadlines.connect_seconds)
    async with calls.connections.visit(address, roots) as channel:
        return read_hello(
            await calls.call_once(channel, HELLO, make_hello(calls.context), deadline)
        )
