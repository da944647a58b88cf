"""Answers other peers: the offered models, this peer's progress, and scores on its data."""

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
"""Number of published models to keep: a peer may still need the one before the newest."""


class PeerService(ServiceInterface):
    """The side of this peer that others can call; lives on the event loop."""

    def __init__(
        self,
        scorer: ModelScorer,
        *,
        answers_scores: bool,
        receives_models: bool,
        receives_reports: bool,
        largest_inbox: int,
    ) -> None:
        self._scorer = scorer
        self._answers_scores = answers_scores
        self._receives_models = receives_models
        self._receives_reports = receives_reports
        self._largest_inbox = largest_inbox
        self._kept: dict[int, PublishedModel] = {}
        self._round, self._phase = 0, Phase.ENTERED
        self._inbox: dict[PeerKey, PulledModel] = {}
        self._reports: dict[PeerKey, dict[int, float]] = {}
        """Reported numbers of each peer, by its round; the last two rounds."""
        self._news = asyncio.Condition()

    async def set_progress(self, round_number: int, phase: Phase) -> None:
        """Set the progress of this peer; it never goes back."""
        async with self._news:
            self._round, self._phase = max((self._round, self._phase), (round_number, phase))
            self._news.notify_all()

    async def publish(self, round_number: int, num_samples: int, model: Model) -> None:
        """Offer a model from now on, and drop the oldest."""
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
        """Return the model of a round, or the newest; None if it is not published in time."""
        await self._wait(lambda: self._has(round_number), wait_seconds)
        if round_number is None:
            return self._kept[max(self._kept)] if self._kept else None
        return self._kept.get(round_number)

    def _has(self, round_number: int | None) -> bool:
        """Return whether waiting can end: a round older than the newest will not come any more."""
        if not self._kept:
            return False
        return round_number is None or max(self._kept) >= round_number

    async def wait_for_phase(
        self, round_number: int, phase: Phase, wait_seconds: float
    ) -> tuple[int, Phase, int | None]:
        """Wait for a phase of a round; return round, phase and the newest published round."""
        await self._wait(lambda: (self._round, self._phase) >= (round_number, phase), wait_seconds)
        return self._round, self._phase, max(self._kept, default=None)

    async def score(self, model: Vector, metric: str, round_number: int | None) -> float:
        """Score another peer's model on this peer's training data, of a round or of now."""
        number = self._round if round_number is None else round_number
        before = self._kept.get(number - 1)
        if before is None and self._kept:
            before = self._kept[max(self._kept)]
        own = None if before is None else before.model.own
        return await self._scorer.score(model, metric, number, own)

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that others may ask for: none, unless this peer's strategy asks them too.

        Every score reveals something about this peer's data.
        """
        return self._scorer.metrics if self._answers_scores else frozenset()

    @property
    def receives_models(self) -> bool:
        """Whether the strategy takes pushed models."""
        return self._receives_models

    async def store_pushed(self, pulled: PulledModel) -> None:
        """Keep a pushed model until the strategy asks for it; only the newest of each sender."""
        if pulled.peer_id not in self._inbox and len(self._inbox) >= self._largest_inbox:
            raise Refused(
                Reason.BUSY, f"{self._largest_inbox} models are waiting for this peer already"
            )
        self._inbox[pulled.peer_id] = pulled

    @property
    def receives_reports(self) -> bool:
        """Whether the strategy receives reports of other peers."""
        return self._receives_reports

    async def store_report(self, peer_id: PeerKey, value: float, round_number: int) -> None:
        """Keep a reported number until the strategy asks for it."""
        values = self._reports.setdefault(peer_id, {})
        values[round_number] = value
        # Two rounds, because a peer that is a round ahead must not replace its earlier number.
        for old in sorted(values)[:-NUM_KEPT]:
            del values[old]

    def take_reports(self, before_round: int | None) -> dict[PeerKey, float]:
        """Return the reports since the last call, only of rounds before one if it is given."""
        taken = {}
        for peer_id, values in self._reports.items():
            due = [number for number in values if before_round is None or number < before_round]
            if due:
                taken[peer_id] = values[max(due)]
            for number in due:
                del values[number]
        return taken

    async def save_reports(self) -> dict[PeerKey, dict[str, float]]:
        """Return the numbers that the strategy has not used yet, as plain data."""
        return {
            peer_id: {str(number): value for number, value in values.items()}
            for peer_id, values in self._reports.items()
            if values
        }

    def restore_reports(self, saved: Mapping[PeerKey, Mapping[str, float]]) -> None:
        """Restore what `save_reports` returned; called before the network is up."""
        self._reports = {
            peer_id: {int(number): float(value) for number, value in values.items()}
            for peer_id, values in saved.items()
        }

    def take_pushed(self) -> dict[PeerKey, PulledModel]:
        """Return the models pushed since the last call."""
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
