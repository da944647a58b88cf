"""The two ends of a stream of chunks, both of which give up on the other if it is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing

from coterie.peer.rejections import Reason, Rejected
from coterie.peer.transport.limits import Pace
from coterie.peer.transport.service import CHUNK_BYTES
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.decoder import Decoder


async def take_in(chunks: AsyncGenerator[wire.Chunk, None], decoder: Decoder, pace: Pace) -> None:
    """Feed a stream to the decoder, which may have been fed before, as long as it is fast."""
    async with aclosing(chunks):
        while True:
            try:
                async with asyncio.timeout(pace.seconds_left):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise Rejected(
                    Reason.LATE, f"the model came too slowly: {decoder.num_fed} bytes so far"
                ) from None
            if chunk is None:
                return
            _require_next(chunk, decoder.num_fed)
            # Not in a thread of its own: to hash and copy a chunk takes less than to hand it over.
            decoder.feed(chunk.data)
            pace.moved(len(chunk.data))


async def send_out(
    chunks: Iterator[tuple[int, bytes]], write: Callable[[bytes], Awaitable[None]], pace: Pace
) -> None:
    """Write chunks as fast as they are read; who reads too slowly does not get the rest."""
    for offset, data in chunks:
        message = wire.Chunk(offset=offset, data=data).SerializeToString()
        try:
            async with asyncio.timeout(pace.seconds_left):
                await write(message)
        except TimeoutError:
            raise Rejected(Reason.LATE, "the model was read too slowly") from None
        pace.moved(len(data))


def _require_next(chunk: wire.Chunk, offset: int) -> None:
    if chunk.offset != offset or not 0 < len(chunk.data) <= CHUNK_BYTES:
        raise Rejected(
            Reason.MALFORMED,
            f"a chunk of {len(chunk.data)} bytes at {chunk.offset}, expected the one at {offset}",
        )
