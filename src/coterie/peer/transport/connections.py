"""Connections to other peers: mutual TLS, each pinned to the certificate of one key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.certificates import TLS_NAME
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.hello import Hello
from coterie.peer.types import PeerKey
from coterie.peer.wire.methods import REPLY_BYTES, REQUEST_BYTES

KEEPALIVE_SECONDS = 20
KEEPALIVE_TIMEOUT_SECONDS = 10


@dataclass(eq=False)
class Connection:
    """A channel to one peer, and the hello received over it."""

    channel: grpc.aio.Channel
    address: str
    certificate: bytes
    hello: Hello | None = None
    num_users: int = 0
    is_retired: bool = False


@dataclass
class Connections:
    """At most one connection per peer, kept while its address and certificate stay the same."""

    context: PeerContext
    _connections: dict[PeerKey, Connection] = field(default_factory=dict)

    @asynccontextmanager
    async def use(self, peer_id: PeerKey) -> AsyncIterator[Connection]:
        """Use the connection to a peer; a retired one is closed after its last use."""
        connection = await self._current(peer_id)
        connection.num_users += 1
        try:
            yield connection
        finally:
            connection.num_users -= 1
            await _close_unused(connection)

    async def retire(self, peer_id: PeerKey) -> None:
        """Use a new connection next time: one that hangs would hang for minutes."""
        connection = self._connections.pop(peer_id, None)
        if connection is not None:
            connection.is_retired = True
            await _close_unused(connection)

    async def close(self) -> None:
        """Close all connections; running calls fail."""
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.is_retired = True
            await connection.channel.close(None)

    @asynccontextmanager
    async def visit(self, address: str, roots: bytes) -> AsyncIterator[grpc.aio.Channel]:
        """Connect to an address for a moment; its peer must have one of these certificates."""
        channel = self._open(address, roots)
        try:
            yield channel
        finally:
            await channel.close(None)

    async def _current(self, peer_id: PeerKey) -> Connection:
        certificate = self.context.trust.get(peer_id)
        if certificate is None or not certificate.is_valid:
            await self.retire(peer_id)
            raise Refused(Reason.UNTRUSTED, "this peer is not trusted any more")
        address = self.context.address_book.address_of(peer_id)
        if address is None:
            raise Refused(Reason.UNREACHABLE, "the address of this peer is not known")
        connection = self._connections.get(peer_id)
        if connection is not None and (connection.address, connection.certificate) != (
            address,
            certificate.pem,
        ):
            await self.retire(peer_id)
            connection = None
        if connection is None:
            channel = self._open(address, certificate.pem)
            connection = self._connections[peer_id] = Connection(channel, address, certificate.pem)
        return connection

    def _open(self, address: str, roots: bytes) -> grpc.aio.Channel:
        identity = self.context.identity
        credentials = grpc.ssl_channel_credentials(
            roots, identity.key_pem, identity.certificate_pem
        )
        return grpc.aio.secure_channel(f"dns:///{address}", credentials, self._options())

    def _options(self) -> list[tuple[str, str | int]]:
        connect_milliseconds = int(self.context.settings.deadlines.connect_seconds * 1000)
        return [
            ("grpc.ssl_target_name_override", TLS_NAME),
            ("grpc.max_send_message_length", REQUEST_BYTES),
            ("grpc.max_receive_message_length", REPLY_BYTES),
            ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
            # Time limit of one attempt to connect; the circuit breaker decides about the next.
            ("grpc.min_reconnect_backoff_ms", connect_milliseconds),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Connections must not be shared with a channel that trusts other certificates.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            # Peers are called directly, without the web proxy that the environment may name.
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
        ]


async def _close_unused(connection: Connection) -> None:
    if connection.is_retired and connection.num_users == 0:
        await connection.channel.close(None)
