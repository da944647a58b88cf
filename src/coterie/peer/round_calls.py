"""The calls of one round to other peers: made in parallel, with account of the time they waste."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import Reason, Refused
from coterie.peer.types import Clock, PeerKey

AT_ONCE = 32
"""Largest number of parallel calls in a round."""
SLOW_FACTOR, SLOW_SECONDS = 4.0, 1.0
"""An answer is slow above this multiple of the usual time plus this many seconds."""
NUM_REMEMBERED = 64
"""Number of answers whose median is the usual time."""
Answer = TypeVar("Answer")
Asked = TypeVar("Asked")


class RoundCalls:
    """Runs the calls of a round, and counts the time that single peers waste.

    With aligned rounds nothing is counted: there the purpose is to wait for all.
    """

    def __init__(
        self, address_book: AddressBook, *, synchronous: bool, clock: Clock = time.monotonic
    ) -> None:
        self._address_book = address_book
        self._synchronous = synchronous
        self._clock = clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._usual: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=NUM_REMEMBERED))

    async def run_all(
        self, asked: Sequence[Asked], call: Callable[[Asked], Awaitable[Answer]]
    ) -> list[tuple[Asked, Answer]]:
        """Return the answers in the order of `asked`."""

        async def run_limited(each: Asked) -> Answer:
            async with self._slots:
                return await call(each)

        answers = await asyncio.gather(*(run_limited(each) for each in asked))
        return list(zip(asked, answers, strict=True))

    async def run(
        self,
        peer_id: PeerKey,
        what: str,
        call: Callable[[], Awaitable[Answer]],
        free: frozenset[Reason] = frozenset(),
    ) -> Answer:
        """Return a peer's answer; a peer that has wasted too much time is not called.

        A refusal for a reason in `free` is not the peer's fault.
        """
        if self._synchronous:
            return await call()
        if self._address_book.is_resting(peer_id):
            raise Refused(Reason.UNREACHABLE, "it wasted time and gets no calls for a while")
        begun_at = self._clock()
        try:
            answer = await call()
        except Refused as refused:
            if refused.reason not in free:
                self._address_book.record_waste(peer_id, self._clock() - begun_at)
            raise
        self._record_duration(peer_id, what, self._clock() - begun_at)
        return answer

    def _record_duration(self, peer_id: PeerKey, what: str, seconds: float) -> None:
        usual = statistics.median(self._usual[what]) if self._usual[what] else seconds
        self._usual[what].append(seconds)
        if seconds > SLOW_FACTOR * usual + SLOW_SECONDS:
            self._address_book.record_waste(peer_id, seconds - usual)
