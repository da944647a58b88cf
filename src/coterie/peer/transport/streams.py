"""Sending and receiving a stream of chunks; both ends abort if the other is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing

from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.call_limits import Pace
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.payload import CHUNK_BYTES
from coterie.peer.wire.payload_decoder import Decoder


async def receive_chunks(
    chunks: AsyncGenerator[wire.Chunk, None], decoder: Decoder, pace: Pace
) -> None:
    """Feed a stream to the decoder, which may have a beginning already, while it is fast enough."""
    async with aclosing(chunks):
        while True:
            try:
                async with asyncio.timeout(pace.seconds_left):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise Refused(
                    Reason.LATE, f"the model came too slowly: {decoder.num_fed} bytes so far"
                ) from None
            if chunk is None:
                return
            pace.begin()  # not earlier: the sender may serve other peers first
            data = chunk.data  # once: each access makes a copy
            _require_next(chunk.offset, len(data), decoder.num_fed)
            decoder.feed(data)
            pace.record_progress(len(data))


async def send_chunks(
    chunks: Iterator[tuple[int, bytes]], write: Callable[[bytes], Awaitable[None]], pace: Pace
) -> None:
    """Write chunks as fast as they are read; stop if the reader is too slow."""
    pace.begin()
    for offset, data in chunks:
        message = wire.Chunk(offset=offset, data=data).SerializeToString()
        try:
            async with asyncio.timeout(pace.seconds_left):
                await write(message)
        except TimeoutError:
            raise Refused(Reason.LATE, "the model was read too slowly") from None
        pace.record_progress(len(data))


def _require_next(offset: int, num_bytes: int, expected: int) -> None:
    if offset != expected or not 0 < num_bytes <= CHUNK_BYTES:
        raise Refused(
            Reason.MALFORMED,
            f"a chunk of {num_bytes} bytes at {offset}, expected the one at {expected}",
        )
