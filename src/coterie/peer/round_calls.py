"""What a round waits for other peers: many at the same time, and how much of it in vain."""

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
"""Calls of one round that are under way at the same time."""
SLOW_FACTOR, SLOW_SECONDS = 4.0, 1.0
"""An answer is slow if it takes so many times as long as usual, and so many seconds more."""
NUM_REMEMBERED = 64
"""Of how many answers the usual time is the median."""
Answer = TypeVar("Answer")
Asked = TypeVar("Asked")


class RoundCalls:
    """Runs the calls of a round, and keeps account of the time that single peers waste.

    Where rounds are aligned there is no such account: to wait for all is their purpose.
    """

    def __init__(
        self, address_book: AddressBook, *, synchronous: bool, clock: Clock = time.monotonic
    ) -> None:
        self._address_book = address_book
        self._synchronous = synchronous
        self._clock = clock
        self._places = asyncio.Semaphore(AT_ONCE)
        self._usual: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=NUM_REMEMBERED))

    async def all(
        self, asked: Sequence[Asked], call: Callable[[Asked], Awaitable[Answer]]
    ) -> list[tuple[Asked, Answer]]:
        """Return the answers in the order in which they were asked for, whatever came first."""

        async def in_its_place(each: Asked) -> Answer:
            async with self._places:
                return await call(each)

        answers = await asyncio.gather(*(in_its_place(each) for each in asked))
        return list(zip(asked, answers, strict=True))

    async def waited(
        self,
        peer_id: PeerKey,
        what: str,
        call: Callable[[], Awaitable[Answer]],
        free: frozenset[Reason] = frozenset(),
    ) -> Answer:
        """Return what a peer answers; a peer that has wasted too much time is not asked.

        For refusals for a reason that is `free`, the peer is not to blame.
        """
        if self._synchronous:
            return await call()
        if self._address_book.is_resting(peer_id):
            raise Refused(Reason.UNREACHABLE, "it wasted time and is left alone for a while")
        begun_at = self._clock()
        try:
            answer = await call()
        except Refused as refused:
            if refused.reason not in free:
                self._address_book.record_waste(peer_id, self._clock() - begun_at)
            raise
        self._answered(peer_id, what, self._clock() - begun_at)
        return answer

    def _answered(self, peer_id: PeerKey, what: str, seconds: float) -> None:
        usual = statistics.median(self._usual[what]) if self._usual[what] else seconds
        self._usual[what].append(seconds)
        if seconds > SLOW_FACTOR * usual + SLOW_SECONDS:
            self._address_book.record_waste(peer_id, seconds - usual)
