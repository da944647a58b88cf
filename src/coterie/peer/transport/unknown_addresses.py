"""Meeting peers at addresses that come without a name, and other processes with my own key."""

from __future__ import annotations

from contextlib import suppress

from coterie.peer.discovery.addresses import open_address
from coterie.peer.refusals import Reason, Rejected
from coterie.peer.transport.calls import Calls, Deadline
from coterie.peer.transport.greeting import Greeting, hello, read_hello, require_owner
from coterie.peer.transport.interface import PeerKey
from coterie.peer.transport.methods import HELLO


async def meet(calls: Calls, address: str) -> PeerKey | None:
    """Learn who is at an address; None if it is myself.

    The first connection accepts whoever is trusted, and only proves that it is one of them. Who it
    claims to be counts after a second one that accepts this key alone.
    """
    station = calls.station
    try:
        own = station.identity.certificate_pem
        claimed = (await _greet(calls, address, own + station.trust.roots())).peer_id
        if claimed == station.identity.peer_id:
            await _meet_myself(calls, address)
            return None
        certificate = station.trust.get(claimed)
        if certificate is None or not certificate.is_valid:
            raise Rejected(Reason.UNTRUSTED, f"at {address} is somebody who is not trusted")
        greeting = await _greet(calls, address, certificate.pem)
        require_owner(greeting, claimed)
    except Rejected as refused:
        station.refusals.count(address, refused.reason)
        raise
    station.members.take_all([greeting.address])
    station.members.returned(claimed, greeting.instance)
    return claimed


async def search_double(calls: Calls) -> None:
    """Look whether another process with my key runs where somebody heard of one."""
    members = calls.station.members
    if members.double is None:
        return
    with suppress(Rejected):  # nobody is there with my key: it was an earlier start of this peer
        await _meet_myself(calls, members.double.address)
    members.outrank_double()


async def _meet_myself(calls: Calls, address: str) -> None:
    station = calls.station
    greeting = await _greet(calls, address, station.identity.certificate_pem)
    require_owner(greeting, station.identity.peer_id)
    station.members.meet_double(open_address(greeting.address, station.trust, station.identity))


async def _greet(calls: Calls, address: str, roots: bytes) -> Greeting:
    deadline = Deadline(calls.station.settings.deadlines.connect_seconds)
    async with calls.channels.visit(address, roots) as channel:
        return read_hello(await calls.call_once(channel, HELLO, hello(calls.station), deadline))
