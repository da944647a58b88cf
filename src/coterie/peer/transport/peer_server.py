"""Server of a peer: checks the caller's identity, trust and limits for every call."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import grpc
from google.protobuf.message import Message

from coterie.errors import ConfigError, CoterieError
from coterie.peer.discovery.addresses import split_address
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.certificates import peer_id_of
from coterie.peer.transport.call_limits import PeerLimits
from coterie.peer.transport.connections import KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.grpc_status import refusal_response
from coterie.peer.transport.handlers import CountedRefusal, Handlers, Write
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.service_interface import ServiceInterface
from coterie.peer.types import PeerKey
from coterie.peer.wire.methods import (
    ASK_SCORE,
    AWAIT,
    EXCHANGE_ADDRESSES,
    GET_MANIFEST,
    GOODBYE,
    HELLO,
    PULL_MODEL,
    PUSH,
    REPLY_BYTES,
    REQUEST_BYTES,
    SERVICE,
    TELL,
    Method,
    parse,
)

STRANGER = "stranger"
"""The name under which refusals of unknown keys are counted together: there may be many."""
LONGEST_CALL_SECONDS = 1200.0
"""A call may wait for a round to end, but not for ever."""
MOST_STREAMS = 32
"""Parallel calls over one connection."""
END_SECONDS = 5.0
"""How long aborted calls may take to tell their callers before the connection is cut."""
_log = logging.getLogger(__name__)

Answer = Callable[[PeerKey, Any, float], Awaitable[Message]]
ServerCall = grpc.aio.ServicerContext[bytes, bytes]


class PeerServer:
    """Answers the calls of peers whose keys are trusted at the moment of the call."""

    def __init__(self, context: PeerContext, service: ServiceInterface, client: PeerClient) -> None:
        self._context = context
        self._limits = PeerLimits(context.settings.limits, time.monotonic)
        self._handlers = Handlers(context, service, client, self._limits)
        self._server: grpc.aio.Server | None = None
        self._roots: bytes | None = None
        self._staying: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    async def start(self, listen: str) -> str:
        """Listen at host:port, where port 0 is any free one; return the actual host:port."""
        _require_address(listen)
        self._is_ending = False
        address = await self._open(listen)
        self._staying = asyncio.create_task(self._stay_open(address))
        return address

    async def _open(self, listen: str) -> str:
        self._server = grpc.aio.server(options=_options(self._context))
        self._server.add_generic_rpc_handlers((self._calls(),))
        try:
            port = self._bind(listen)
        except ConfigError:
            await self.stop()
            raise
        await self._server.start()
        return f"{listen.rpartition(':')[0]}:{port}"

    async def _stay_open(self, address: str) -> None:
        """Listen again if a call with an unreadable name has ended the library's server."""
        while (server := self._server) is not None:
            try:
                await server.wait_for_termination()
            except UnicodeDecodeError as unreadable:
                if self._server is server:
                    self._context.refused.count(STRANGER, Reason.MALFORMED, str(unreadable))
                    try:
                        await self._open(address)
                    except ConfigError as error:
                        _log.error("This peer cannot be reached any more: %s", error)
            else:
                return

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Take no more calls, and let running ones end within the grace."""
        server, self._server = self._server, None
        if server is not None:
            stopping = asyncio.create_task(server.stop(grace_seconds + END_SECONDS))
            await self._end_calls(grace_seconds)
            await stopping
            # A call that never started cleans up in a task of its own, which must get its turn.
            await asyncio.sleep(0)
        await self._context.payload_cache.close()

    async def _end_calls(self, grace_seconds: float) -> None:
        """End waiting calls; the library would print a traceback for each."""
        await asyncio.sleep(0)  # from now on no call begins
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=grace_seconds)
        self._is_ending = True
        for task in self._under_way:
            task.cancel()

    def _bind(self, listen: str) -> int:
        port = 0
        if self._server is not None:
            with suppress(RuntimeError):  # it does not say why
                port = self._server.add_secure_port(listen, self._credentials())
        if port == 0:
            raise ConfigError(
                f"Cannot listen at {listen!a}: {_why_not(listen)}. Expected host:port with an "
                "address of this computer and a free port, such as '0.0.0.0:7300'; "
                "change `listen` in peer.yaml."
            )
        return port

    def _credentials(self) -> grpc.ServerCredentials:
        """Return credentials that read the trusted certificates at every handshake."""
        first = self._configuration()
        self._roots = None
        # An empty list would also accept no peer, but then everything would depend on that.
        return grpc.dynamic_ssl_server_credentials(
            first,
            self._changed_configuration,  # type: ignore[arg-type]  # None: as before
            require_client_authentication=True,
        )

    def _changed_configuration(self) -> grpc.ServerCertificateConfiguration | None:
        """Return new credentials if needed; called in the library's threads at every handshake."""
        roots = self._accepted()
        return None if roots == self._roots else self._configuration()

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        identity = self._context.identity
        self._roots = self._accepted()
        return grpc.ssl_server_certificate_configuration(
            [(identity.key_pem, identity.certificate_pem)], self._roots
        )

    def _accepted(self) -> bytes:
        # This peer's own key too: another process that was started with it must be told.
        return self._context.identity.certificate_pem + self._context.trust.roots()

    def _calls(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        handlers = self._handlers
        answers: dict[Method[Any, Any], Answer] = {
            HELLO: handlers.hello,
            EXCHANGE_ADDRESSES: handlers.exchange_addresses,
            AWAIT: handlers.wait,
            GET_MANIFEST: handlers.get_manifest,
            ASK_SCORE: handlers.ask_score,
            PUSH: handlers.push,
            TELL: handlers.report,
            GOODBYE: handlers.goodbye,
        }
        table = {
            method.name: grpc.unary_unary_rpc_method_handler(
                partial(self._answer_once, method, answer)
            )
            for method, answer in answers.items()
        }
        table[PULL_MODEL.name] = grpc.unary_stream_rpc_method_handler(self._answer_pull)
        return grpc.method_handlers_generic_handler(SERVICE, table)

    async def _answer_once(
        self, method: Method[Any, Any], answer: Answer, data: bytes, call: ServerCall
    ) -> bytes:
        async def work(peer_id: PeerKey) -> bytes:
            request = parse(method.request, data)
            remaining = call.time_remaining()
            seconds = LONGEST_CALL_SECONDS if remaining is None else remaining
            seconds = min(seconds, LONGEST_CALL_SECONDS)
            async with asyncio.timeout(seconds):
                return (await answer(peer_id, request, seconds)).SerializeToString()

        return await self._guarded(method, work, call) or b""

    async def _answer_pull(self, data: bytes, call: ServerCall) -> None:
        write: Write = call.write

        async def work(peer_id: PeerKey) -> None:
            request = parse(PULL_MODEL.request, data)
            seconds = call.time_remaining()
            # Only the deadline of the call itself ends the transfer to a reader that stops reading.
            if seconds is None or seconds > LONGEST_CALL_SECONDS:
                raise Refused(Reason.MALFORMED, "a transfer without a deadline, or with a late one")
            async with asyncio.timeout(seconds):
                await self._handlers.pull_model(peer_id, request, write)

        await self._guarded(PULL_MODEL, work, call)

    async def _guarded(
        self,
        method: Method[Any, Any],
        work: Callable[[PeerKey], Awaitable[bytes | None]],
        call: ServerCall,
    ) -> bytes | None:
        """Answer a call; when the server stops, abort it with a message."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("A call must be answered in a task of its own.")
        self._under_way.add(task)
        try:
            return await self._answered(method, work, call)
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            task.uncancel()
        finally:
            self._under_way.discard(task)
        with suppress(grpc.aio.InternalError):
            await call.abort(grpc.StatusCode.UNAVAILABLE, "this peer ends")
        return None

    async def _answered(
        self,
        method: Method[Any, Any],
        work: Callable[[PeerKey], Awaitable[bytes | None]],
        call: ServerCall,
    ) -> bytes | None:
        """Answer a call if its caller is trusted and within limits; otherwise refuse it."""
        peer_id = STRANGER
        try:
            peer_id = self._caller(method, call)
            self._context.traffic.served[peer_id, method.name] += 1
            self._context.address_book.record_sign_of_life(peer_id)
            with self._limits.call(peer_id):
                return await work(peer_id)
        except Refused as refused:
            reason, detail = refused.reason, refused.detail
            if not isinstance(refused, CountedRefusal):
                self._context.refused.count(peer_id, reason, detail)
        except TimeoutError:
            reason, detail = Reason.LATE, "it could not be answered in time"
        except CoterieError as error:
            _log.error("A call of %s failed: %s", method.name, error)
            await call.abort(grpc.StatusCode.INTERNAL, "it could not be answered")
        except grpc.aio.InternalError:
            return None  # the caller has gone
        # After the limits: a slow reader must not occupy its slot while it is told.
        with suppress(grpc.aio.InternalError):
            await call.abort(*refusal_response(reason, detail))
        return None

    def _caller(self, method: Method[Any, Any], call: ServerCall) -> PeerKey:
        """Return the caller by the key of the connection, if it is trusted now."""
        certificates = list(call.auth_context().get("x509_pem_cert", ()))
        peer_id = _id_of(certificates[0]) if certificates else None
        trust = self._context.trust
        if len(self._limits) > len(trust.certificates()) + 1:
            self._limits.forget_others({*trust.certificates(), self._context.identity.peer_id})
        if peer_id is not None and trust.is_trusted(peer_id):
            return peer_id
        if peer_id == self._context.identity.peer_id and method is HELLO:
            return peer_id
        raise Refused(Reason.UNTRUSTED, "this key is not trusted here")


@lru_cache(1024)
def _id_of(certificate: bytes) -> PeerKey:
    """Return the id in a certificate; TLS has checked it, so it can be read."""
    return peer_id_of(certificate)


def _options(context: PeerContext) -> list[tuple[str, int]]:
    handshake_milliseconds = int(context.settings.deadlines.connect_seconds * 1000)
    return [
        ("grpc.max_receive_message_length", REQUEST_BYTES),
        ("grpc.max_send_message_length", REPLY_BYTES),
        ("grpc.max_concurrent_streams", MOST_STREAMS),
        ("grpc.server_handshake_timeout_ms", handshake_milliseconds),
        ("grpc.so_reuseport", 0),  # a second process at the same port must be an error
        ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
        ("grpc.max_connection_idle_ms", 300_000),
        ("grpc.max_metadata_size", 8192),
    ]


def _require_address(listen: str) -> None:
    """Refuse an invalid address; the library would take port 99999 for 34463."""
    host, _, port = listen.rpartition(":")
    try:
        split_address(f"{host}:1" if port == "0" else listen)
    except ConfigError as error:
        raise ConfigError(f"Cannot listen at {listen!a}, which is `listen`: {error}") from None


def _why_not(listen: str) -> str:
    """Return why listening failed, by trying it with a plain socket."""
    host, _, port = listen.rpartition(":")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        for family, kind, protocol, _, place in places:
            with socket.socket(family, kind, protocol) as trial:
                trial.bind(place)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "the network library refused it"
