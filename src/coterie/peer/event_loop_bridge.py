"""Connects the strategy's thread with the event loop of the network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar

import numpy as np

from coterie.errors import Interrupted
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import Reason, Refused
from coterie.peer.round_calls import RoundCalls
from coterie.peer.service import PeerService
from coterie.peer.transport.calls import Deadline
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport.service_interface import PulledModel
from coterie.peer.transport_settings import DeadlineSettings
from coterie.peer.types import PeerKey
from coterie.peer.wire.model import ONLY_MODEL, Model, Part, Phase
from coterie.strategies.requests import PEERS, Message

AWAIT_SECONDS = 5.0
"""Longest wait of one call. A peer that died in the meantime is noticed at the next call."""
ANSWER_SECONDS = 0.5
"""Grace period for an answer after the last wait of a round."""
Answer = TypeVar("Answer")
Fetched = list[tuple[int, PulledModel | None]]


class EventLoopBridge:
    """Sends the requests of a strategy's thread to the network; the thread waits for answers."""

    def __init__(
        self,
        client: PeerClient,
        address_book: AddressBook,
        service: PeerService,
        deadlines: DeadlineSettings,
        *,
        synchronous: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._address_book = address_book
        self._service = service
        self._deadlines = deadlines
        self._synchronous = synchronous
        self._calls = RoundCalls(address_book, synchronous=synchronous)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._expected: set[PeerKey] = set()
        """With own pace: peers whose first model was already waited for."""
        self.parts = ONLY_MODEL
        """Parts of the last fetch."""
        self._reached: set[PeerKey] = set()
        """With aligned rounds: peers that have reached this round and answer without a wait."""
        self._is_stopping = False
        self.waited_seconds = 0.0
        """Total time that the strategy's thread has waited for the network."""

    def stop(self) -> None:
        """Cancel all waits; called on the event loop."""
        self._is_stopping = True
        for task in self._waiting:
            task.cancel()

    def sleep(self, seconds: float) -> None:
        """Sleep until the time has passed or the peer stops."""
        self._wait_for(asyncio.sleep(seconds))

    def reachable_peers(self) -> list[int]:
        """Return the numbers of the other peers that can be asked in this round."""
        return self._wait_for(self._reachable_peers())

    @property
    def num_peers(self) -> int:
        """Return the number of known peers, including this one."""
        return self._address_book.num_peers

    def exists(self, number: int) -> bool:
        """Return whether another peer has this number."""
        return 1 <= number < self.num_peers

    def report_progress(self, round_number: int, phase: Phase) -> None:
        """Tell other peers the progress of this one."""
        self._wait_for(self._service.set_progress(round_number, phase), is_short=True)

    def publish(self, round_number: int, num_samples: int, model: Model) -> None:
        """Offer a model to other peers."""
        self._wait_for(self._service.publish(round_number, num_samples, model), is_short=True)

    def wait_for_others(self, round_number: int, phase: Phase) -> None:
        """With aligned rounds: wait until all peers are as far, or until the deadline."""
        if self._synchronous:
            patience = self._deadlines.round_seconds
            self._reached = self._wait_for(self.wait_until_reached(round_number, phase, patience))

    def fetch(self, numbers: Sequence[int], round_number: int, parts: frozenset[Part]) -> Fetched:
        """Return the models of peers, in order; None for a model that was damaged or late.

        Peers that are not there are left out. With aligned rounds the model of `round_number` is
        fetched, otherwise the newest.
        """
        wanted = round_number if self._synchronous else None
        return self._wait_for(self._fetch(numbers, wanted, parts))

    def ask_score(self, numbers: Sequence[int], metric: str, round_number: int) -> dict[int, float]:
        """Let other peers score the published model of this one; NaN if a peer cannot."""
        wanted = round_number if self._synchronous else None
        return self._wait_for(self._ask_score(numbers, metric, wanted))

    def push(self, numbers: Sequence[int], round_number: int) -> list[int]:
        """Push this peer's published model to others; return the peers that took it."""
        wanted = round_number if self._synchronous else None
        return self._wait_for(self._push(numbers, wanted))

    def report(self, values: Mapping[int, float], round_number: int) -> list[int]:
        """Report a number to each peer; return the peers that received it."""
        return self._wait_for(self._report(values, round_number))

    def receive_reports(self, round_number: int) -> dict[int, float]:
        """Return the numbers that other peers reported to this one, by peer.

        With aligned rounds, only numbers from before `round_number`.
        """
        return self._wait_for(self._receive_reports(round_number if self._synchronous else None))

    def take_pushed(self) -> dict[int, PulledModel]:
        """Return the models that were pushed to this peer, by sender."""
        return self._wait_for(self._take_pushed())

    def to_ids(self, message: Message) -> Message:
        """Return a message for other peers: with ids (n, 32) instead of numbers."""
        if PEERS not in message:
            return message
        ids = [
            bytes.fromhex(self._address_book.id_of(number)) for number in message[PEERS].tolist()
        ]
        rows = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), 32)
        return {**message, PEERS: rows}

    def to_local_numbers(self, message: Message) -> Message:
        """Return another peer's message with local numbers, without entries about unknown peers."""
        rows = message.get(PEERS)
        if rows is None or rows.ndim != 2:
            return {name: array for name, array in message.items() if name != PEERS}
        ids = [row.tobytes().hex() for row in rows]
        met = np.array([self._address_book.has_met(peer_id) for peer_id in ids], dtype=bool)
        numbers = [
            self._address_book.number_of(peer_id)
            for peer_id in ids
            if self._address_book.has_met(peer_id)
        ]
        return {
            name: np.array(numbers, np.int64)
            if name == PEERS
            else array[met]
            if array.shape[:1] == met.shape
            else array
            for name, array in message.items()
        }

    def save(self) -> dict[str, Any]:
        """Return the address book and the reports not yet used, as plain data."""
        reports = self._wait_for(self._service.save_reports(), is_short=True)
        # Checkpoints keep the keys of earlier versions.
        return {"members": self._address_book.save(), "told": reports}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned; called before the network is up."""
        self._address_book.restore(saved["members"])
        self._service.restore_reports(saved["told"])

    async def _reachable_peers(self) -> list[int]:
        known = self._address_book.reachable()
        if not self._synchronous:
            return known
        return [number for number in known if self._address_book.id_of(number) in self._reached]

    async def wait_until_reached(
        self, round_number: int, phase: Phase, patience: float
    ) -> set[PeerKey]:
        """Wait until the reachable peers are so far; return those that are; on the event loop."""
        others = [self._address_book.id_of(number) for number in self._address_book.reachable()]
        reached = await asyncio.gather(
            *(self._reaches(peer_id, round_number, phase, Deadline(patience)) for peer_id in others)
        )
        return {peer_id for peer_id, is_there in zip(others, reached, strict=True) if is_there}

    async def _reaches(
        self, peer_id: PeerKey, round_number: int, phase: Phase, deadline: Deadline
    ) -> bool:
        while left := deadline.seconds:
            wait = min(left, AWAIT_SECONDS)
            answer = min(wait + self._deadlines.call_seconds, left + ANSWER_SECONDS)
            try:
                status = await self._client.await_phase(peer_id, round_number, phase, wait, answer)
            except Refused:
                return False  # do not wait for a peer that does not answer
            if (status.round, status.phase) >= (round_number, phase):
                return True
            if left - deadline.seconds < wait / 2:
                return False  # nor for one that answers without waiting: it would never end
        return False

    async def _fetch(
        self, numbers: Sequence[int], round_number: int | None, parts: frozenset[Part]
    ) -> Fetched:
        self.parts = parts

        async def fetch(number: int) -> PulledModel | Reason:
            try:
                return await self._fetch_one(self._address_book.id_of(number), round_number, parts)
            except Refused as refused:
                return refused.reason

        return [
            (number, answer if isinstance(answer, PulledModel) else None)
            for number, answer in await self._calls.run_all(numbers, fetch)
            if answer is not Reason.UNREACHABLE
        ]

    async def _fetch_one(
        self, peer_id: PeerKey, round_number: int | None, parts: frozenset[Part]
    ) -> PulledModel:
        seconds = wait = self._deadlines.fetch_seconds
        is_first = peer_id not in self._expected
        self._expected.add(peer_id)
        if not self._synchronous:
            # The newest model is available at once. Only the first one is worth a wait.
            wait = min(seconds, self._deadlines.call_seconds) if is_first else 0.0
        fetch = partial(
            self._client.fetch,
            peer_id,
            round=round_number,
            parts=parts,
            wait_seconds=wait,
            deadline_seconds=seconds,
        )
        # A peer without a model yet is not to blame for the time it was given.
        free = frozenset({Reason.GONE} if is_first else ())
        return await self._calls.run(peer_id, "fetch", fetch, free)

    async def _ask_score(
        self, numbers: Sequence[int], metric: str, round_number: int | None
    ) -> dict[int, float]:
        published = await self._service.get_published(None, 0)
        if published is None:
            return {}

        async def ask(number: int) -> float | None:
            peer_id = self._address_book.id_of(number)
            ask = partial(self._client.ask_score, peer_id, published, metric, round_number)
            try:
                return await self._calls.run(peer_id, "score", ask)
            except Refused:
                return None

        answers = await self._calls.run_all(numbers, ask)
        return {number: value for number, value in answers if value is not None}

    async def _push(self, numbers: Sequence[int], round_number: int | None) -> list[int]:
        published = await self._service.get_published(None, 0)
        if published is None:
            return []

        async def push(number: int) -> bool:
            peer_id = self._address_book.id_of(number)
            push = partial(self._client.push, peer_id, published, round=round_number)
            return await self._is_done(peer_id, "push", push)

        return [number for number, is_done in await self._calls.run_all(numbers, push) if is_done]

    async def _report(self, values: Mapping[int, float], round_number: int) -> list[int]:
        async def report(number: int) -> bool:
            peer_id = self._address_book.id_of(number)
            report = partial(self._client.report, peer_id, values[number], round_number)
            return await self._is_done(peer_id, "report", report)

        return [
            number for number, is_done in await self._calls.run_all(list(values), report) if is_done
        ]

    async def _is_done(
        self, peer_id: PeerKey, what: str, call: Callable[[], Coroutine[Any, Any, None]]
    ) -> bool:
        try:
            await self._calls.run(peer_id, what, call)
        except Refused:
            return False
        return True

    async def _receive_reports(self, before_round: int | None) -> dict[int, float]:
        reports = self._service.take_reports(before_round)
        met = {
            peer_id: value
            for peer_id, value in reports.items()
            if self._address_book.has_met(peer_id)
        }
        return {self._address_book.number_of(peer_id): value for peer_id, value in met.items()}

    async def _take_pushed(self) -> dict[int, PulledModel]:
        arrivals = self._service.take_pushed()
        return {
            self._address_book.number_of(peer_id): pulled for peer_id, pulled in arrivals.items()
        }

    def _wait_for(self, question: Coroutine[Any, Any, Answer], *, is_short: bool = False) -> Answer:
        """Run a coroutine on the event loop and wait for it; stopping the peer ends the wait.

        Short calls are completed even then, so that a finished round can be saved.
        """

        async def answer() -> Answer:
            task = asyncio.current_task()
            if is_short:
                return await question
            if self._is_stopping or task is None:
                question.close()
                raise asyncio.CancelledError
            self._waiting.add(task)
            try:
                return await question
            finally:
                self._waiting.discard(task)

        asked = time.perf_counter()
        try:
            return asyncio.run_coroutine_threadsafe(answer(), self._loop).result()
        except CancelledError:
            raise Interrupted("Stopped while waiting for other peers.") from None
        finally:
            self.waited_seconds += time.perf_counter() - asked
