"""Calls to other peers: every failure is a `Refused`, is counted and moves the circuit breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import grpc

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.connections import Connection, Connections
from coterie.peer.transport.context import PeerContext
from coterie.peer.transport.grpc_status import RefusedByPeer, refusal_of
from coterie.peer.types import PeerKey
from coterie.peer.wire.methods import Method, Reply, Request, parse

MOST_RETRIES = 2
"""Of safe calls, when the peer is unreachable."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
_SILENCE = (Reason.UNREACHABLE, Reason.LATE)
_NO_FAILURE = (Reason.WRONG_LAYOUT, Reason.WRONG_FROZEN_PART, Reason.OUTDATED)
"""Refusals of a peer that works well otherwise."""


class Deadline:
    """A point in time by which a call must be done."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def seconds(self) -> float:
        """Return the remaining time."""
        return max(self._until - time.monotonic(), 0.0)


class Pauses:
    """Growing pauses between attempts, within a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._seconds = FIRST_PAUSE_SECONDS

    async def pause(self) -> bool:
        """Wait a little; return whether there is time for another attempt."""
        if self._seconds >= self._deadline.seconds:
            return False
        await asyncio.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, LONGEST_PAUSE_SECONDS)
        return True


@dataclass
class Calls:
    """Calls over the connections to all peers."""

    context: PeerContext
    connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        self.connections = Connections(self.context)

    @asynccontextmanager
    async def connected(self, peer_id: PeerKey) -> AsyncIterator[Connection]:
        """Use the connection to a peer, unless its circuit breaker is open; record the result."""
        address_book = self.context.address_book
        if not address_book.allow_call(peer_id):
            self.context.failures.count(peer_id, Reason.UNREACHABLE)
            raise Refused(Reason.UNREACHABLE, "it did not answer and gets no calls for a while")
        try:
            async with self.connections.use(peer_id) as connection:
                yield connection
        except Refused as refused:
            await self._note(peer_id, refused)
            raise
        address_book.record_success(peer_id)

    async def _note(self, peer_id: PeerKey, refused: Refused) -> None:
        is_mine = not isinstance(refused, RefusedByPeer) and refused.reason not in _SILENCE
        context = self.context
        (context.refused if is_mine else context.failures).count(
            peer_id, refused.reason, refused.detail
        )
        if isinstance(refused, RefusedByPeer) and refused.reason is not Reason.UNTRUSTED:
            context.address_book.record_success(peer_id)
        elif refused.reason not in _NO_FAILURE:
            context.address_book.record_failure(peer_id)
        if not isinstance(refused, RefusedByPeer) and refused.reason in _SILENCE:
            await self.connections.retire(peer_id)

    async def call(
        self,
        connection: Connection,
        method: Method[Request, Reply],
        request: Request,
        deadline: Deadline,
        *,
        is_safe: bool = True,
    ) -> Reply:
        """Call; repeat after a pause if the peer was busy, or was unreachable and it is safe."""
        pauses = Pauses(deadline)
        num_retries = 0
        while True:
            try:
                return await self.call_once(connection.channel, method, request, deadline)
            except Refused as refused:
                if not _may_retry(refused, is_safe=is_safe and num_retries < MOST_RETRIES):
                    raise
                num_retries += refused.reason is Reason.UNREACHABLE
                if not await pauses.pause():
                    raise

    async def call_once(
        self,
        channel: grpc.aio.Channel,
        method: Method[Request, Reply],
        request: Request,
        deadline: Deadline,
    ) -> Reply:
        """Call once."""
        with _explained():
            call = channel.unary_unary(method.path, None, None)
            data = await call(request.SerializeToString(), timeout=deadline.seconds)
        return parse(method.reply, data)

    async def stream(
        self,
        connection: Connection,
        method: Method[Request, Reply],
        request: Request,
        deadline: Deadline,
    ) -> AsyncGenerator[Reply, None]:
        """Yield the messages of a stream; if the caller stops early, the stream is cancelled."""
        with _explained():
            started = connection.channel.unary_stream(method.path, None, None)
            call = started(request.SerializeToString(), timeout=deadline.seconds)
            try:
                async for data in call:
                    yield parse(method.reply, data)
            finally:
                call.cancel()


def _may_retry(refused: Refused, *, is_safe: bool) -> bool:
    if isinstance(refused, RefusedByPeer):
        return refused.reason is Reason.BUSY
    return is_safe and refused.reason is Reason.UNREACHABLE


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the library's exceptions into `Refused`."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise refusal_of(error) from None
    except grpc.aio.UsageError:
        raise Refused(Reason.UNREACHABLE, "the connection was closed") from None
    except asyncio.CancelledError:
        # The library also cancels calls of a closed channel; then this task is not cancelled.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Refused(Reason.UNREACHABLE, "the connection was closed") from None
