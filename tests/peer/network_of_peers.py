"""Real peers on the loopback: servers and clients on one event loop, with keys of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from torch import nn

from coterie.models.layout import Layout
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import Identity, create_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport.connections import TLS_NAME
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.peer_server import PeerServer
from coterie.peer.transport.service_interface import PublishedModel, PulledModel, ServiceInterface
from coterie.peer.transport_settings import (
    BreakerSettings,
    DeadlineSettings,
    LimitSettings,
    TransportSettings,
)
from coterie.peer.wire.methods import Method
from coterie.peer.wire.model import Model, Part, Phase, Vector
from coterie.peer.wire.payload import Encoding
from coterie.randomness import generator

SMALL = Layout.of(nn.Linear(6, 3))
LARGE = Layout.of(nn.Linear(1024, 2048))
"""8 MiB: more than the system buffers between two ends of a connection."""
PATIENCE_SECONDS = 180.0
"""For what is bound to happen, on a machine of any speed."""


def settings_of(
    deadlines: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    breaker: dict[str, Any] | None = None,
    **others: Any,
) -> TransportSettings:
    """Return settings, patient where nothing else is said."""
    patient = {"connect_seconds": 20, "call_seconds": 30}
    return TransportSettings(
        deadlines=DeadlineSettings(**(patient | (deadlines or {}))),
        limits=LimitSettings(**(limits or {})),
        breaker=BreakerSettings(**({"failures": 100} | (breaker or {}))),
        **others,
    )


@dataclass
class SimpleService(ServiceInterface):
    """A runtime that offers what it is given, and scores a model by its first weight."""

    offered: dict[int, PublishedModel] = field(default_factory=dict)
    round: int = 0
    phase: Phase = Phase.ENTERED
    takes: bool = True
    received: list[PulledModel] = field(default_factory=list)
    heard: dict[str, tuple[float, int]] = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def publish(self, published: PublishedModel) -> None:
        """Offer one more model; the last two are kept."""
        async with self.news:
            self.offered[published.round] = published
            for old in sorted(self.offered)[:-2]:
                del self.offered[old]
            self.round, self.phase = published.round, Phase.PUBLISHED
            self.news.notify_all()

    async def get_published(
        self, round_number: int | None, wait_seconds: float
    ) -> PublishedModel | None:
        await self._wait(lambda: self._find(round_number) is not None, wait_seconds)
        return self._find(round_number)

    def _find(self, round_number: int | None) -> PublishedModel | None:
        newest = max(self.offered, default=-1)
        return self.offered.get(newest if round_number is None else round_number)

    async def wait_for_phase(
        self, round_number: int, phase: Phase, wait_seconds: float
    ) -> tuple[int, Phase, int | None]:
        await self._wait(lambda: (self.round, self.phase) >= (round_number, phase), wait_seconds)
        return self.round, self.phase, max(self.offered, default=None)

    async def score(self, model: Vector, metric: str, round_number: int | None) -> float:
        return float(model[0]) if metric == "first" else float("nan")

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset({"first", "impossible"})

    @property
    def receives_models(self) -> bool:
        return self.takes

    async def store_pushed(self, pulled: PulledModel) -> None:
        self.received.append(pulled)

    @property
    def receives_reports(self) -> bool:
        return self.takes

    async def store_report(self, peer_id: str, value: float, round_number: int) -> None:
        self.heard[peer_id] = (value, round_number)

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        async def wait() -> None:
            async with self.news:
                await self.news.wait_for(condition)

        if not condition() and seconds > 0:
            try:
                await asyncio.wait_for(wait(), seconds)
            except TimeoutError:
                return


@dataclass
class TestPeer:
    """One peer: its key, its runtime, and both sides of its network."""

    __test__ = False

    context: PeerContext
    service: SimpleService
    client: PeerClient
    server: PeerServer
    address: str = ""

    @property
    def id(self) -> str:
        return self.context.identity.peer_id

    @property
    def address_book(self) -> AddressBook:
        return self.context.address_book

    async def start(self, listen: str = "127.0.0.1:0") -> None:
        self.address = await self.server.start(listen)
        self.address_book.announce(self.address)

    async def stop(self) -> None:
        await self.server.stop()
        await self.client.close()

    def trusts(self, *others: TestPeer) -> None:
        for other in others:
            self.context.trust.add(other.context.identity.certificate_pem)

    def knows(self, *others: TestPeer) -> None:
        for other in others:
            self.address_book.add_record(other.address_book.my_record)


def make_peer(
    folder: Path,
    *,
    layout: Layout = SMALL,
    settings: TransportSettings | None = None,
    identity: Identity | None = None,
    frozen_digest: str = "",
    **clocks: Callable[[], float],
) -> TestPeer:
    """Return a peer with a new key, unless it is given one."""
    identity = identity or create_identity(folder, folder.name)
    trust = TrustStore(folder)
    settings = settings or settings_of()
    address_book = AddressBook(identity, trust, settings=settings.breaker, **clocks)
    context = PeerContext(
        identity, trust, address_book, layout, settings, frozen_digest=frozen_digest
    )
    service = SimpleService()
    client = PeerClient(context)
    return TestPeer(context, service, client, PeerServer(context, service, client))


@asynccontextmanager
async def running(*peers: TestPeer) -> AsyncIterator[None]:
    """Start peers that do not know each other, and stop them in the end."""
    try:
        for peer in peers:
            await peer.start()
        yield
    finally:
        for peer in peers:
            await peer.stop()


@asynccontextmanager
async def network(
    folder: Path, count: int, *, layout: Layout = SMALL, settings: TransportSettings | None = None
) -> AsyncIterator[list[TestPeer]]:
    """Run peers that trust and know each other."""
    peers = [
        make_peer(folder / f"peer{number}", layout=layout, settings=settings)
        for number in range(count)
    ]
    async with running(*peers):
        introduce(peers)
        yield peers


def introduce(peers: Iterable[TestPeer]) -> None:
    """Let all trust and know each other."""
    everybody = list(peers)
    for peer in everybody:
        others = [other for other in everybody if other is not peer]
        peer.trusts(*others)
        peer.knows(*others)


def random_model(layout: Layout, key: int = 0, parts: Iterable[Part] = (Part.MODEL,)) -> Model:
    """Return weights that a network could have, and a table."""
    rng = generator(0, "models of tests", key)
    vectors = {part: rng.normal(size=layout.size).astype(np.float32) for part in parts}
    return Model(vectors, {"values": rng.normal(size=4)})


def published(layout: Layout = SMALL, round: int = 0, key: int = 0) -> PublishedModel:
    """Return a model as a runtime offers it."""
    parts = (Part.MODEL, Part.LAST_UPDATE)
    return PublishedModel(round, 24, time.monotonic(), random_model(layout, key, parts))


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what is bound to happen."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def refused(awaitable: Any) -> Reason:
    """Return why something was refused; it must be."""
    try:
        await awaitable
    except Refused as rejected:
        return rejected.reason
    raise AssertionError("it was not refused")


@asynccontextmanager
async def raw_channel(
    caller: Identity | None, address: str, roots: bytes
) -> AsyncIterator[grpc.aio.Channel]:
    """Dial as somebody who does not keep to the rules of the client."""
    credentials = grpc.ssl_channel_credentials(
        roots, caller and caller.key_pem, caller and caller.certificate_pem
    )
    options = [
        ("grpc.ssl_target_name_override", TLS_NAME),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.bdp_probe", 0),  # take in no more than is read
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
    ]
    channel = grpc.aio.secure_channel(address, credentials, options)
    try:
        yield channel
    finally:
        await channel.close()


async def raw_call(
    channel: grpc.aio.Channel, method: Method[Any, Any], data: bytes, timeout: float = 30.0
) -> tuple[grpc.StatusCode, str | None]:
    """Return status and reason of a call with any bytes."""
    try:
        await channel.unary_unary(method.path)(data, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        told = dict(error.trailing_metadata() or ())
        return error.code(), told.get("coterie-reason")
    return grpc.StatusCode.OK, None


@dataclass
class Proxy:
    """A network in between that can be cut: after so many bytes towards the one who dialled."""

    target: str
    cut_after: int | None = None
    num_cuts: int = 0
    on_cut: Callable[[], Any] | None = None
    address: str = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Pass on what comes until the end."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        host, port = self.target.split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        back = asyncio.create_task(self._pass_on(far_reader, writer, is_back=True))
        forth = asyncio.create_task(self._pass_on(reader, far_writer, is_back=False))
        try:
            await asyncio.wait([back, forth], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (back, forth):
                each.cancel()
            await asyncio.gather(back, forth, return_exceptions=True)
            for end in (writer, far_writer):
                end.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_back: bool
    ) -> None:
        num_bytes = 0
        while data := await reader.read(2**16):
            num_bytes += len(data)
            if is_back and self.cut_after is not None and num_bytes > self.cut_after:
                self.cut_after = None
                self.num_cuts += 1
                if self.on_cut:
                    await self.on_cut()
                return
            writer.write(data)
            await writer.drain()


def weights(model: Model) -> np.ndarray:
    """Return the weights themselves."""
    return model.vectors[Part.MODEL]


async def until_error(call):
    """Yield what a call answers before it fails."""
    try:
        async for each in call:
            yield each
    except grpc.aio.AioRpcError:
        return


async def offered_digest(peer) -> bytes:
    """Return the name of the newest payload that a peer offers."""
    newest = peer.service.offered[max(peer.service.offered)]
    kind = (frozenset({Part.MODEL}), Encoding.FLOAT32)
    return (await peer.context.payload_cache.manifest(newest, *kind, peer.id)).digest
