"""Answers to the calls of the protocol, for callers whose key was checked."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from coterie.peer.discovery.addresses import open_address
from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.call_limits import Pace, PeerLimits
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.hello import make_hello, read_hello, require_owner
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.service_interface import ServiceInterface
from coterie.peer.transport.streams import send_chunks
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import parse_enum
from coterie.peer.wire.model import ONLY_MODEL, Part, Phase
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import Manifest

MOST_PUSHES_REMEMBERED = 1024
Write = Callable[[bytes], Awaitable[None]]


class CountedRefusal(Refused):
    """A refusal that was already counted for the peer that caused it."""


class Handlers:
    """One method per call, with the caller, its message and the seconds left for the answer."""

    def __init__(
        self,
        context: PeerContext,
        service: ServiceInterface,
        client: PeerClient,
        limits: PeerLimits,
    ) -> None:
        self._context = context
        self._service = service
        self._client = client
        self._limits = limits
        # Pulls wait in a queue: each for at most a few transfers of limited duration.
        self._pulls = asyncio.Semaphore(context.settings.limits.pulls_at_once_in_all)
        self._pushed: deque[tuple[PeerKey, bytes]] = deque(maxlen=MOST_PUSHES_REMEMBERED)

    async def hello(
        self, peer_id: PeerKey, message: wire.HelloMessage, seconds: float
    ) -> wire.HelloMessage:
        """Exchange hellos; a peer with another model is not refused."""
        context = self._context
        hello = read_hello(message)
        require_owner(hello, peer_id)
        reply = make_hello(context)  # before the following calls, which may change it
        if peer_id == context.identity.peer_id:
            double = open_address(hello.address, context.trust, context.identity)
            context.address_book.handle_duplicate(double)
            return reply
        try:
            context.address_book.add_record(hello.address)
        except Refused as refused:
            if refused.reason is not Reason.OUTDATED:
                raise
            # A replay, or a clock that was set back: no reason to refuse the peer.
            context.refused.count(peer_id, refused.reason)
        context.address_book.mark_present(peer_id, hello.instance)
        return reply

    async def exchange_addresses(
        self, peer_id: PeerKey, message: wire.AddressList, seconds: float
    ) -> wire.AddressList:
        """Add another peer's addresses, and return the known ones."""
        self._context.address_book.add_records(message.addresses)
        return wire.AddressList(addresses=self._context.address_book.records())

    async def wait(
        self, peer_id: PeerKey, message: wire.AwaitRequest, seconds: float
    ) -> wire.StatusMessage:
        """Return the progress of this peer, once it has reached a phase."""
        phase = parse_enum(Phase, message.phase)
        patience = min(message.wait_milliseconds / 1000, seconds)
        reached = await self._service.wait_for_phase(message.round, phase, patience)
        round_number, phase, published_round = reached
        return wire.StatusMessage(
            round=round_number,
            phase=int(phase),  # type: ignore[arg-type]
            published=published_round is not None,
            published_round=published_round or 0,
            instance=self._context.address_book.instance,
        )

    async def get_manifest(
        self, peer_id: PeerKey, message: wire.ManifestRequest, seconds: float
    ) -> wire.Manifest:
        """Return the description of a payload to pull."""
        parts = frozenset(parse_enum(Part, part) for part in message.parts)
        encoding = parse_enum(Encoding, message.encoding)
        wanted = message.round if message.HasField("round") else None
        patience = min(message.wait_milliseconds / 1000, seconds)
        published = await self._service.get_published(wanted, patience)
        if published is None:
            raise Refused(Reason.GONE, "this round's model is not offered, or not any more")
        return await self._context.payload_cache.manifest(published, parts, encoding, peer_id)

    async def pull_model(self, peer_id: PeerKey, message: wire.PullRequest, write: Write) -> None:
        """Send a payload from an offset on."""
        cache, settings = self._context.payload_cache, self._context.settings.limits
        cache.payload(message.digest)  # refuses a payload that is gone without a wait in the queue

        async def write_counted(data: bytes) -> None:
            if not self._context.trust.is_trusted(peer_id):
                raise Refused(Reason.UNTRUSTED, "this key is not trusted any more")
            await write(data)
            self._limits.record_sent(peer_id, len(data))
            self._context.traffic.bytes_sent[peer_id] += len(data)

        with self._limits.pull(peer_id):
            async with self._pulls:
                chunks = cache.payload(message.digest).chunks(message.offset)
                await send_chunks(chunks, write_counted, Pace(settings, time.monotonic))

    async def ask_score(
        self, peer_id: PeerKey, message: wire.ScoreRequest, seconds: float
    ) -> wire.ScoreReply:
        """Pull the caller's model and score it on this peer's data."""
        if message.metric not in self._service.metrics:
            raise Refused(Reason.NOT_WANTED, "this peer does not compute this metric")
        if Manifest.read(message.manifest).parts != ONLY_MODEL:
            raise Refused(
                Reason.MALFORMED, "a request for a score must offer a model and nothing else"
            )
        with self._limits.accept_model(peer_id):
            self._limits.count_score(peer_id, await self._current_round())
            with _relayed():
                pulled = await self._client.pull(peer_id, message.manifest, seconds)
            wanted = message.round if message.HasField("round") else None
            value = await self._service.score(
                pulled.model.vectors[Part.MODEL], message.metric, wanted
            )
        return wire.ScoreReply(value=None if math.isnan(value) else value)

    async def push(
        self, peer_id: PeerKey, message: wire.PushRequest, seconds: float
    ) -> wire.PushReply:
        """Pull the sender's model and keep it, once, however often the sender asks."""
        if not self._service.receives_models:
            raise Refused(Reason.NOT_WANTED, "this peer takes no pushes")
        if Part.MODEL not in Manifest.read(message.manifest).parts:
            raise Refused(Reason.MALFORMED, "a push must offer a model")
        key = (peer_id, message.manifest.digest)
        with self._limits.accept_model(peer_id):
            if key in self._pushed:
                return wire.PushReply()
            self._limits.count_push(peer_id, await self._current_round())
            with _relayed():
                pulled = await self._client.pull(peer_id, message.manifest, seconds)
            await self._service.store_pushed(pulled)
            self._pushed.append(key)
        return wire.PushReply()

    async def report(
        self, peer_id: PeerKey, message: wire.TellRequest, seconds: float
    ) -> wire.TellReply:
        """Keep a reported number; only the last ones of each peer, so that memory is bounded."""
        if not self._service.receives_reports:
            raise Refused(Reason.NOT_WANTED, "the strategy of this peer receives no reports")
        low, high = self._context.report_range
        if not low <= message.value <= high:
            detail = f"a report of {message.value:.6g}, the strategy accepts {low:g} to {high:g}"
            raise Refused(Reason.MALFORMED, detail)
        if not self._context.address_book.has_met(peer_id):
            raise Refused(Reason.NOT_WANTED, "say hello first")
        await self._service.store_report(peer_id, message.value, message.round)
        return wire.TellReply()

    async def goodbye(
        self, peer_id: PeerKey, message: wire.GoodbyeMessage, seconds: float
    ) -> wire.GoodbyeReply:
        """Record that a peer leaves."""
        self._context.address_book.mark_left(peer_id, message.instance)
        return wire.GoodbyeReply()

    async def _current_round(self) -> int:
        """Return this peer's own round: quotas do not depend on the caller's claims."""
        return (await self._service.wait_for_phase(0, Phase.ENTERED, 0.0))[0]


@contextmanager
def _relayed() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise CountedRefusal(refused.reason, refused.detail) from None
