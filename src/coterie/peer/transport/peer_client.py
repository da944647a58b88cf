"""The calls of a peer to others: how models are fetched over the network."""

from __future__ import annotations

import asyncio
import time

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.call_limits import Pace
from coterie.peer.transport.calls import Calls, Deadline, Pauses
from coterie.peer.transport.connections import Connection
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.grpc_status import RefusedByPeer
from coterie.peer.transport.hello import Hello, make_hello, read_hello, require_owner
from coterie.peer.transport.service_interface import PeerProgress, PublishedModel, PulledModel
from coterie.peer.transport.streams import receive_chunks
from coterie.peer.transport.unknown_addresses import identify_peer, search_duplicate
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import (
    ASK_SCORE,
    AWAIT,
    EXCHANGE_ADDRESSES,
    GET_MANIFEST,
    GOODBYE,
    HELLO,
    PULL_MODEL,
    PUSH,
    TELL,
    Method,
    Reply,
    Request,
    parse_enum,
)
from coterie.peer.wire.model import ONLY_MODEL, Model, Part, Phase
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import Decoder, Manifest

MOST_BREAKS = 3
"""How often a broken transfer is continued."""
MOST_RESTARTS = 3
"""How often a transfer starts again because its payload was dropped."""


class PeerClient:
    """Calls other peers by id; every failure is a `Refused`."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context
        self._calls = Calls(context)

    async def close(self) -> None:
        """Close all connections."""
        await self._calls.connections.close()

    async def identify(self, address: str) -> PeerKey | None:
        """Return the id of the peer at an address of the settings; None for this peer itself."""
        return await identify_peer(self._calls, address)

    async def search_duplicate(self) -> None:
        """Search another process with this peer's key; see `AddressBook.conflict`."""
        await search_duplicate(self._calls)

    async def say_hello(self, peer_id: PeerKey) -> Hello:
        """Exchange hellos; return the other peer's."""
        async with self._calls.connected(peer_id) as connection:
            return await self._exchange_hello(peer_id, connection)

    async def exchange_addresses(self, peer_id: PeerKey) -> int:
        """Exchange address records with a peer; return the number of new ones."""
        address_book = self._context.address_book
        request = wire.AddressList(addresses=address_book.records())
        async with self._calls.connected(peer_id) as connection:
            reply = await self._call(peer_id, connection, EXCHANGE_ADDRESSES, request)
            return address_book.add_records(reply.addresses)

    async def await_phase(
        self,
        peer_id: PeerKey,
        round_number: int,
        phase: Phase,
        wait_seconds: float = 0.0,
        deadline_seconds: float | None = None,
    ) -> PeerProgress:
        """Wait until a peer is so far, or until the wait is over; return its progress."""
        if deadline_seconds is None:
            deadline_seconds = wait_seconds + self._context.settings.deadlines.call_seconds
        request = wire.AwaitRequest(
            round=round_number,
            phase=int(phase),  # type: ignore[arg-type]
            wait_milliseconds=_milliseconds(wait_seconds),
        )
        async with self._calls.connected(peer_id) as connection:
            deadline = Deadline(deadline_seconds)
            reply = await self._counted(peer_id, connection, AWAIT, request, deadline)
            published = reply.published_round if reply.published else None
            return PeerProgress(
                reply.round, parse_enum(Phase, reply.phase), published, reply.instance
            )

    async def fetch(
        self,
        peer_id: PeerKey,
        *,
        round: int | None = None,
        parts: frozenset[Part] = ONLY_MODEL,
        wait_seconds: float = 0.0,
        deadline_seconds: float | None = None,
    ) -> PulledModel:
        """Fetch a peer's model of a round, or its newest."""
        if deadline_seconds is None:
            deadline_seconds = wait_seconds + self._context.settings.deadlines.fetch_seconds
        deadline = Deadline(deadline_seconds)
        async with self._calls.connected(peer_id) as connection:
            encoding = self._best_encoding(await self._known_hello(peer_id, connection, deadline))
            for restarts in range(MOST_RESTARTS + 1):
                request = _request(round, parts, encoding, wait_seconds)
                # The description comes by a short call; only the model may take all of the time.
                soon = wait_seconds + self._context.settings.deadlines.call_seconds
                answer = Deadline(min(soon, deadline.seconds))
                offered = await self._manifest(peer_id, connection, request, answer)
                try:
                    return await self._pull(peer_id, connection, offered, deadline)
                except RefusedByPeer as refused:
                    if refused.reason is not Reason.GONE or restarts == MOST_RESTARTS:
                        raise
        raise AssertionError("the loop returns or raises")

    async def pull(
        self, peer_id: PeerKey, offered: wire.Manifest, deadline_seconds: float
    ) -> PulledModel:
        """Pull a model that another peer offers for a score or as a push."""
        deadline = Deadline(deadline_seconds)
        async with self._calls.connected(peer_id) as connection:
            self._best_encoding(await self._known_hello(peer_id, connection, deadline))
            return await self._pull(peer_id, connection, offered, deadline)

    async def ask_score(
        self, peer_id: PeerKey, published: PublishedModel, metric: str, round: int | None = None
    ) -> float:
        """Let a peer score this one's model on its data, of a round or of now; NaN if it cannot."""
        seconds = self._context.settings.deadlines.score_seconds
        async with self._calls.connected(peer_id) as connection:
            offered = await self._offer(peer_id, connection, published, ONLY_MODEL)
            request = wire.ScoreRequest(manifest=offered, metric=metric, round=round)
            reply = await self._call(
                peer_id, connection, ASK_SCORE, request, seconds, is_safe=False
            )
            if metric == "accuracy" and reply.value > 1:
                raise Refused(Reason.MALFORMED, f"an accuracy of {reply.value:.6g}")
            return reply.value if reply.HasField("value") else float("nan")

    async def push(
        self,
        peer_id: PeerKey,
        published: PublishedModel,
        parts: frozenset[Part] = ONLY_MODEL,
        round: int | None = None,
    ) -> None:
        """Push a model to a peer, and return once the peer has it."""
        seconds = self._context.settings.deadlines.fetch_seconds
        async with self._calls.connected(peer_id) as connection:
            offered = await self._offer(peer_id, connection, published, parts)
            # Safe to repeat: the receiver recognises the digest of a model that it has.
            request = wire.PushRequest(manifest=offered, round=round)
            await self._call(peer_id, connection, PUSH, request, seconds)

    async def report(self, peer_id: PeerKey, value: float, round: int) -> None:
        """Report a number to a peer."""
        async with self._calls.connected(peer_id) as connection:
            # Safe to repeat: the last number of a round counts, and there is only one.
            await self._call(peer_id, connection, TELL, wire.TellRequest(value=value, round=round))

    async def goodbye(self) -> None:
        """Tell all reachable peers that this one leaves; others will notice by themselves."""
        address_book = self._context.address_book
        reachable = [address_book.id_of(number) for number in address_book.reachable()]
        await asyncio.gather(*(self._goodbye(each) for each in reachable), return_exceptions=True)

    async def _goodbye(self, peer_id: PeerKey) -> None:
        request = wire.GoodbyeMessage(instance=self._context.address_book.instance)
        deadline = Deadline(self._context.settings.deadlines.goodbye_seconds)
        async with self._calls.connected(peer_id) as connection:
            await self._counted(peer_id, connection, GOODBYE, request, deadline, is_safe=False)

    async def _known_hello(
        self, peer_id: PeerKey, connection: Connection, deadline: Deadline | None = None
    ) -> Hello:
        """Return the hello of a peer; exchange hellos if its process is new."""
        hello = connection.hello
        if hello is not None and hello.instance == self._context.address_book.instance_of(peer_id):
            return hello
        return await self._exchange_hello(peer_id, connection, deadline)

    async def _exchange_hello(
        self, peer_id: PeerKey, connection: Connection, deadline: Deadline | None = None
    ) -> Hello:
        seconds = self._context.settings.deadlines.call_seconds
        if deadline is not None:  # a hello takes no longer than the fetch that needs it
            seconds = min(seconds, deadline.seconds)
        request = make_hello(self._context)
        reply = await self._counted(peer_id, connection, HELLO, request, Deadline(seconds))
        hello = read_hello(reply)
        require_owner(hello, peer_id)
        self._context.address_book.add_records([hello.address])
        connection.hello = hello
        return hello

    def _best_encoding(self, hello: Hello) -> Encoding:
        """Return the best encoding that both peers use."""
        if hello.layout != self._context.layout.fingerprint:
            raise Refused(Reason.WRONG_LAYOUT, "it trains another model")
        if hello.frozen != self._context.frozen_digest:
            detail = "its model has other frozen parameters, such as another backbone"
            raise Refused(Reason.WRONG_FROZEN_PART, detail)
        return max(hello.encodings & self._context.encodings, default=Encoding.FLOAT32)

    async def _offer(
        self,
        peer_id: PeerKey,
        connection: Connection,
        published: PublishedModel,
        parts: frozenset[Part],
    ) -> wire.Manifest:
        encoding = self._best_encoding(await self._known_hello(peer_id, connection))
        return await self._context.payload_cache.manifest(published, parts, encoding, peer_id)

    async def _manifest(
        self,
        peer_id: PeerKey,
        connection: Connection,
        request: wire.ManifestRequest,
        deadline: Deadline,
    ) -> wire.Manifest:
        offered = await self._counted(peer_id, connection, GET_MANIFEST, request, deadline)
        if set(offered.parts) != set(request.parts):
            raise Refused(Reason.MALFORMED, "it offers other parts than it was asked for")
        if request.HasField("round") and offered.round != request.round:
            raise Refused(Reason.MALFORMED, "it offers another round than it was asked for")
        return offered

    async def _pull(
        self, peer_id: PeerKey, connection: Connection, offered: wire.Manifest, deadline: Deadline
    ) -> PulledModel:
        begun_at = time.monotonic()
        manifest = Manifest.read(offered)
        if manifest.encoding not in self._context.encodings:
            raise Refused(
                Reason.MALFORMED, f"this peer does not read {manifest.encoding.name.lower()}"
            )
        decoder = Decoder(self._context.layout, manifest, self._context.decoder_limits)
        try:
            await self._take_all(peer_id, connection, decoder, manifest, deadline)
            model = decoder.finish()  # fast: the weights were checked as they arrived
        except BaseException:
            # Not only when the error is collected: by then other peers may have sent more.
            decoder.discard()
            raise
        finally:
            self._context.traffic.bytes_received[peer_id] += decoder.num_fed
        return PulledModel(
            peer_id=peer_id,
            round=offered.round,
            age_seconds=offered.age_milliseconds / 1000,
            num_samples=offered.num_samples,
            model=model,
            num_bytes=_num_tensor_bytes(model, manifest),
            seconds=time.monotonic() - begun_at,
        )

    async def _take_all(
        self,
        peer_id: PeerKey,
        connection: Connection,
        decoder: Decoder,
        manifest: Manifest,
        deadline: Deadline,
    ) -> None:
        """Feed the whole payload to the decoder; continue a broken stream where it broke."""
        pace = Pace(self._context.settings.limits, time.monotonic)
        pauses = Pauses(deadline)
        num_breaks = 0
        while True:
            request = wire.PullRequest(digest=manifest.digest, offset=decoder.num_fed)
            self._context.traffic.calls[peer_id, PULL_MODEL.name] += 1
            try:
                chunks = self._calls.stream(connection, PULL_MODEL, request, deadline)
                await receive_chunks(chunks, decoder, pace)
                return
            except Refused as refused:
                self._context.traffic.failures[peer_id, PULL_MODEL.name] += 1
                is_from_peer = isinstance(refused, RefusedByPeer)
                is_broken = refused.reason is Reason.UNREACHABLE and not is_from_peer
                num_breaks += is_broken
                is_busy = refused.reason is Reason.BUSY and is_from_peer
                may_go_on = is_busy or (is_broken and num_breaks <= MOST_BREAKS)
                if not may_go_on or not await pauses.pause():
                    raise

    async def _call(
        self,
        peer_id: PeerKey,
        connection: Connection,
        method: Method[Request, Reply],
        request: Request,
        wait_seconds: float = 0.0,
        *,
        is_safe: bool = True,
    ) -> Reply:
        """Call with the deadline of a short call, plus the wait that the call asks for."""
        deadline = Deadline(wait_seconds + self._context.settings.deadlines.call_seconds)
        return await self._counted(peer_id, connection, method, request, deadline, is_safe=is_safe)

    async def _counted(
        self,
        peer_id: PeerKey,
        connection: Connection,
        method: Method[Request, Reply],
        request: Request,
        deadline: Deadline,
        *,
        is_safe: bool = True,
    ) -> Reply:
        self._context.traffic.calls[peer_id, method.name] += 1
        try:
            return await self._calls.call(connection, method, request, deadline, is_safe=is_safe)
        except Refused:
            self._context.traffic.failures[peer_id, method.name] += 1
            raise


def _request(
    round: int | None, parts: frozenset[Part], encoding: Encoding, wait_seconds: float
) -> wire.ManifestRequest:
    return wire.ManifestRequest(
        round=round,
        parts=sorted(parts),  # type: ignore[arg-type]
        encoding=int(encoding),  # type: ignore[arg-type]
        wait_milliseconds=_milliseconds(wait_seconds),
    )


def _milliseconds(seconds: float) -> int:
    return min(int(seconds * 1000), 2**32 - 1)


def _num_tensor_bytes(model: Model, manifest: Manifest) -> int:
    """Return the bytes of the tensors as sent; for compressed ones, of the whole payload."""
    if manifest.encoding.is_compressed:
        return manifest.size
    item_bytes = 2 if manifest.encoding.dtype == "BF16" else 4
    vectors = sum(vector.size for vector in model.vectors.values()) * item_bytes
    return vectors + sum(array.nbytes for array in model.message.values())
