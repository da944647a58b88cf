"""Answers other peers: what I offer, how far I am, and how good their models are on my data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from coterie.peer.model_scoring import ModelScorer
from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.service_interface import PublishedModel, PulledModel, ServiceInterface
from coterie.peer.types import PeerKey
from coterie.peer.wire.model import Model, Phase, Vector

NUM_KEPT = 2
"""How many published models are kept: a peer may still need the one before the newest."""


class PeerService(ServiceInterface):
    """What others may know of me; lives on the event loop."""

    def __init__(
        self,
        scorer: ModelScorer,
        *,
        answers_scores: bool,
        takes_pushes: bool,
        listens: bool,
        largest_inbox: int,
    ) -> None:
        self._scorer = scorer
        self._answers_scores = answers_scores
        self._takes_pushes = takes_pushes
        self._listens = listens
        self._largest_inbox = largest_inbox
        self._kept: dict[int, PublishedModel] = {}
        self._round, self._phase = 0, Phase.ENTERED
        self._inbox: dict[PeerKey, PulledModel] = {}
        self._told: dict[PeerKey, dict[int, float]] = {}
        """What each peer said in which of its rounds, the last two."""
        self._news = asyncio.Condition()

    async def set_progress(self, round_number: int, phase: Phase) -> None:
        """Note how far I am; phases of a round only go forward."""
        async with self._news:
            self._round, self._phase = max((self._round, self._phase), (round_number, phase))
            self._news.notify_all()

    async def publish(self, round_number: int, num_samples: int, model: Model) -> None:
        """Offer a model from now on, and forget the oldest."""
        async with self._news:
            self._kept[round_number] = PublishedModel(
                round_number, num_samples, time.monotonic(), model
            )
            for old in sorted(self._kept)[:-NUM_KEPT]:
                del self._kept[old]
        await self.set_progress(round_number, Phase.PUBLISHED)

    async def get_published(
        self, round_number: int | None, wait_seconds: float
    ) -> PublishedModel | None:
        """Return the model of a round, or the newest; None if it is not there in time."""
        await self._wait(lambda: self._has(round_number), wait_seconds)
        if round_number is None:
            return self._kept[max(self._kept)] if self._kept else None
        return self._kept.get(round_number)

    def _has(self, round_number: int | None) -> bool:
        """Whether waiting is over: what comes later cannot bring back an old round."""
        if not self._kept:
            return False
        return round_number is None or max(self._kept) >= round_number

    async def wait_for_phase(
        self, round_number: int, phase: Phase, wait_seconds: float
    ) -> tuple[int, Phase, int | None]:
        """Wait for a phase of a round; return how far I am, and the newest published round."""
        await self._wait(lambda: (self._round, self._phase) >= (round_number, phase), wait_seconds)
        return self._round, self._phase, max(self._kept, default=None)

    async def score(self, model: Vector, metric: str, round_number: int | None) -> float:
        """Measure somebody's model on my training data, of a round or of now."""
        return await self._scorer.score(
            model, metric, self._round if round_number is None else round_number
        )

    @property
    def metrics(self) -> frozenset[str]:
        """What I measure on my data for others: nothing, unless my strategy asks the same.

        Whoever has a model scored by me learns something about my data.
        """
        return self._scorer.metrics if self._answers_scores else frozenset()

    @property
    def takes_pushes(self) -> bool:
        """Whether my strategy receives models that are pushed."""
        return self._takes_pushes

    async def store_pushed(self, pulled: PulledModel) -> None:
        """Keep a pushed model until my strategy asks for it; of each sender the newest."""
        if pulled.peer_id not in self._inbox and len(self._inbox) >= self._largest_inbox:
            raise Refused(Reason.BUSY, f"{self._largest_inbox} models are waiting for me already")
        self._inbox[pulled.peer_id] = pulled

    @property
    def listens(self) -> bool:
        """Whether my strategy hears what others tell."""
        return self._listens

    async def store_told(self, peer_id: PeerKey, value: float, round_number: int) -> None:
        """Keep what somebody told me until my strategy asks for it."""
        said = self._told.setdefault(peer_id, {})
        said[round_number] = value
        # Who is a round ahead must not make me miss what it said before.
        for old in sorted(said)[:-NUM_KEPT]:
            del said[old]

    def take_told(self, before_round: int | None) -> dict[PeerKey, float]:
        """Return what I was told since I last asked; only in rounds before one, if it is given."""
        taken = {}
        for who, said in self._told.items():
            due = [number for number in said if before_round is None or number < before_round]
            if due:
                taken[who] = said[max(due)]
            for number in due:
                del said[number]
        return taken

    async def save_told(self) -> dict[PeerKey, dict[str, float]]:
        """Return what my strategy has not heard yet, as plain data."""
        return {
            who: {str(number): value for number, value in said.items()}
            for who, said in self._told.items()
            if said
        }

    def restore_told(self, saved: Mapping[PeerKey, Mapping[str, float]]) -> None:
        """Take back what `save_told` returned; called before the network is up."""
        self._told = {
            who: {int(number): float(value) for number, value in said.items()}
            for who, said in saved.items()
        }

    def take_pushed(self) -> dict[PeerKey, PulledModel]:
        """Return what was pushed to me since I last asked."""
        arrivals, self._inbox = self._inbox, {}
        return arrivals

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        async def wait() -> None:
            async with self._news:
                await self._news.wait_for(condition)

        if not condition() and seconds > 0:
            try:
                await asyncio.wait_for(wait(), seconds)
            except TimeoutError:
                return
