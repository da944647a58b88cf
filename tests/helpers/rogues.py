"""Trusted peers that turn out to be hostile: real servers that send what a test tells them to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from peer.network_of_peers import TestPeer, make_peer, settings_of

from coterie.models.layout import Layout
from coterie.peer.security.identity import Identity
from coterie.peer.transport.handlers import Handlers, Write
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.model import Part, Phase
from coterie.peer.wire.payload import Encoding

CHUNK_BYTES = 2**20
LAST_ROUND = 10**9


@dataclass(frozen=True)
class Offence:
    """What somebody gets who asks for a model."""

    data: bytes = b""
    size: int | None = None
    """As announced; its true one when not given."""
    digest: bytes | None = None
    """As announced; the true one when not given."""
    encoding: Encoding = Encoding.FLOAT32
    parts: frozenset[Part] | None = None
    """As announced; those asked for when not given."""
    round: int | None = None
    chunk_bytes: int = CHUNK_BYTES
    seconds_per_chunk: float = 0.0
    messages: Iterable[bytes] | None = None
    """What the stream consists of instead of chunks of the data."""


@dataclass
class Deeds:
    """What a rogue has done so far."""

    num_offered: int = 0
    num_pulls: int = 0
    num_bytes: int = 0
    pulling: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody has begun to pull."""
    cut_off: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody did not take all there was."""


Choice = Callable[[PeerKey], Offence]
"""What somebody who asks is offered."""


class RogueHandlers(Handlers):
    """Keeps to the protocol but for the models."""

    def obey(self, master: Rogue) -> None:
        self._master = master
        self._deeds = master.deeds
        self._announced: dict[bytes, Offence] = {}

    async def get_manifest(
        self, peer_id: PeerKey, message: wire.ManifestRequest, seconds: float
    ) -> wire.Manifest:
        offence = self._master.choice(peer_id)
        digest = offence.digest or hashlib.sha256(offence.data).digest()
        self._announced[digest] = offence
        self._deeds.num_offered += 1
        parts = message.parts if offence.parts is None else sorted(offence.parts)
        return wire.Manifest(
            digest=digest,
            size=len(offence.data) if offence.size is None else offence.size,
            round=message.round if offence.round is None else offence.round,
            num_samples=24,
            encoding=int(offence.encoding),
            parts=parts,
        )

    async def pull_model(self, peer_id: PeerKey, message: wire.PullRequest, write: Write) -> None:
        # Of a digest that it never announced, it sends what it announced last.
        offence = self._announced.get(message.digest) or list(self._announced.values())[-1]
        self._deeds.num_pulls += 1
        self._deeds.pulling.set()
        try:
            for data in _messages(offence, message.offset):
                await write(data)
                self._deeds.num_bytes += len(data)
                await asyncio.sleep(offence.seconds_per_chunk)
        except BaseException:
            self._deeds.cut_off.set()
            raise


def _messages(offence: Offence, offset: int) -> Iterable[bytes]:
    if offence.messages is not None:
        yield from offence.messages
        return
    for start in range(offset, len(offence.data), offence.chunk_bytes):
        data = offence.data[start : start + offence.chunk_bytes]
        yield wire.Chunk(offset=start, data=data).SerializeToString()


@dataclass
class Rogue:
    """A hostile peer that runs on this event loop."""

    peer: TestPeer
    choice: Choice
    """What to offer; may be changed at any time."""
    deeds: Deeds = field(default_factory=Deeds)

    @property
    def id(self) -> str:
        return self.peer.id

    @property
    def announced(self) -> dict[bytes, Offence]:
        """What it sends of which digest; more may be added."""
        handlers = self.peer.server._handlers
        assert isinstance(handlers, RogueHandlers)
        return handlers._announced

    @property
    def identity(self) -> Identity:
        return self.peer.context.identity


@asynccontextmanager
async def rogue(
    folder: Path,
    layout: Layout,
    choice: Choice,
    *,
    identity: Identity | None = None,
    listen: str = "127.0.0.1:0",
    compression: str = "none",
    prepare: Callable[[Rogue], None] = lambda _: None,
) -> AsyncIterator[Rogue]:
    """Run a hostile peer, who is ahead of everybody so that nobody waits for it.

    `prepare` may change it before it begins to listen.
    """
    settings = settings_of(compression=compression, precision="float32")
    peer = make_peer(folder, layout=layout, identity=identity, settings=settings)
    peer.service.round, peer.service.phase = LAST_ROUND, Phase.PUBLISHED
    made = Rogue(peer, choice)
    handlers = RogueHandlers(peer.context, peer.service, peer.client, peer.server._limits)
    handlers.obey(made)
    peer.server._handlers = handlers
    prepare(made)
    await peer.start(listen)
    try:
        yield made
    finally:
        await peer.stop()
