"""The runtime of the peers of one shard: others answer what they ask of peers of other shards.

Requests that reach other shards are answered in steps. `collect` returns what this shard needs of
each other shard, which answers with `serve`. Then `answer` answers the requests as in one process,
and returns what peers sent to other shards, which `accept` takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from coterie.learning.trainer import Matrix
from coterie.runtime.best_models import Peers
from coterie.runtime.driver import ANSWER_ORDER
from coterie.runtime.model_store import ModelStore
from coterie.runtime.published_models import PublishedModels
from coterie.runtime.round import Round
from coterie.runtime.scoring import ScoreJob, score_models
from coterie.runtime.true_similarity import true_similarities, watched_here
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.visitors import Parcel, Visitors
from coterie.simulation.simulated_peers import PeerRuntime, PushedModel
from coterie.strategies.requests import AskScore, Fetch, Offer, PeerId
from coterie.strategies.strategy import Strategy

Kind: TypeAlias = int
"""The place of a kind of requests in `ANSWER_ORDER`."""
WATCH: Kind = -1
"""Stands for the measurement of watched peers, which need the models of all others."""
REACHES_OTHERS = frozenset(ANSWER_ORDER.index(kind) for kind in (Fetch, AskScore))
"""The kinds that need other shards before they can be answered."""


@dataclass(frozen=True)
class Wanted:
    """What one shard asks of another: models, or scores of its own peers' models."""

    numbers: tuple[PeerId, ...] = ()
    jobs: tuple[ScoreJob, ...] = ()
    models: Parcel = field(default_factory=Parcel)
    """The models that the jobs score."""


@dataclass(frozen=True)
class Served:
    """What a shard answers to another: models, or scores in the order of the jobs."""

    models: Parcel
    scores: dict[ScoreJob, float]


@dataclass
class Sent:
    """What peers of one shard sent to those of another: pushed models and reports."""

    pushes: list[tuple[PeerId, PeerId]] = field(default_factory=list)
    """Sender and receiver of each pushed model."""
    reports: list[tuple[PeerId, PeerId, float]] = field(default_factory=list)
    """Reporter, receiver and value."""
    models: Parcel = field(default_factory=Parcel)


class ShardRuntime(PeerRuntime):
    """Runs the peers of one shard, in steps that the caller puts in order."""

    _models: Visitors

    def __init__(
        self, state: ModelStore, strategies: list[Strategy], plan: ShardPlan, shard: int
    ) -> None:
        self._plan = plan
        self._shard = shard
        super().__init__(state, strategies)
        self._sent: dict[int, Sent] = {}
        self._scores: dict[ScoreJob, float] = {}
        """Scores by peers of other shards."""

    def begin_round(self) -> None:
        """Begin a round, in which every peer trains for the first time."""
        self._trainings[:] = 0
        self._models.clear()

    def begin_turn(self, now: Round, peers: Peers) -> Kind | None:
        """Let peers make their first requests; return the kind to answer next."""
        if self._is_in_turn:
            self._models.clear()
        self._begin_plans(now, peers)
        return self._kind()

    def collect(self, now: Round, kind: Kind) -> dict[int, Wanted]:
        """Return what the waiting requests of a kind need, by shard."""
        if kind == WATCH:
            return self._wanted_models(self._watched_others())
        batch = self._batch(ANSWER_ORDER[kind])
        for peer, request in batch.items():
            self._check_targets(now, peer, request)
        if ANSWER_ORDER[kind] is AskScore:
            return self._wanted_scores(now, batch)
        targets = {target for request in batch.values() for target in request.peers}
        return self._wanted_models({target for target in targets if now.reachable[target]})

    def serve(self, wanted: Wanted) -> Served:
        """Return models of this shard, or scores on its peers' data."""
        self._models.hold(wanted.models)
        # In a sequential round a model of the same peer may be another one in the next turn.
        known = {} if self._is_in_turn else self._evaluated
        scores = score_models(self._state, self._models, wanted.jobs, known)
        return Served(
            Parcel.of(self._models, self._state, wanted.numbers),
            dict(zip(wanted.jobs, scores, strict=True)),
        )

    def take(self, served: Served) -> None:
        """Take what another shard served."""
        self._models.hold(served.models)
        self._scores.update(served.scores)

    def answer(self, now: Round, kind: Kind, batch: int) -> Kind | None:
        """Answer the waiting requests of a kind; return the kind to answer next.

        `batch` is the place of these requests among all of the round, in all shards.
        """
        now.exchanges.begin_batch(batch)
        self._answer(now, ANSWER_ORDER[kind])
        self._scores.clear()
        return self._kind()

    def take_sent(self) -> dict[int, Sent]:
        """Return what peers sent to other shards since the last call, by shard."""
        sent, self._sent = self._sent, {}
        for each in sent.values():
            senders = sorted({sender for sender, _ in each.pushes})
            each.models = Parcel.of(self._models, self._state, senders)
        return sent

    def accept(self, sent: Sent) -> None:
        """Put what peers of another shard sent into the inboxes of this shard's peers."""
        models = zip(sent.models.offers, sent.models.models, strict=True)
        pushed = {offer.peer: (offer, model) for offer, model in models}
        for sender, receiver in sent.pushes:
            self._keep_pushed(receiver, *pushed[sender])
        for reporter, receiver, value in sent.reports:
            self._deliver(reporter, receiver, value)

    def end_turn(self, now: Round, peers: Peers) -> None:
        """Publish the models of peers whose requests are all answered."""
        self._end_turn(now, peers)

    def deliver_reports(self) -> None:
        """Deliver the reports of a turn."""
        self._deliver_reports()

    def end_round(self, now: Round) -> None:
        """End the exchanges of a round."""
        if not self._is_in_turn:
            self._end_exchange()
        now.chosen = [strategy.neighbours() for strategy in self.strategies]

    def is_watch_due(self, now: Round) -> bool:
        """Return whether watched peers measure all others in this round."""
        watch = self._state.settings.watch
        return bool(watch.peers) and now.number % watch.every == 0

    def record_watched(self, now: Round) -> None:
        """Record what the watched peers of this shard measure."""
        now.similarities = true_similarities(self._state, self._models, now.clusters)

    def _published_models(self) -> PublishedModels:
        return Visitors(self._state, self._messages)

    @property
    def _is_in_turn(self) -> bool:
        return self._state.settings.schedule == "sequential"

    def _kind(self) -> Kind | None:
        kind = self._next_kind()
        return None if kind is None else ANSWER_ORDER.index(kind)

    def _watched_others(self) -> set[PeerId]:
        return set(self._everyone.tolist()) if watched_here(self._state) else set()

    def _wanted_models(self, numbers: set[PeerId]) -> dict[int, Wanted]:
        """Return which models to ask other shards for: those that are not at hand."""
        needed = sorted(n for n in numbers if not self._models.is_here(n))
        return {
            shard: Wanted(tuple(n for n in needed if n in self._plan.numbers(shard)))
            for shard in sorted({self._plan.shard_of(number) for number in needed})
        }

    def _wanted_scores(self, now: Round, batch: dict[int, AskScore]) -> dict[int, Wanted]:
        """Return the models to be scored by other shards' peers."""
        jobs: dict[int, list[ScoreJob]] = {}
        for peer, request in batch.items():
            own = self._state.numbers[peer]
            for scorer in request.peers:
                if scorer not in self._state.numbers and now.reachable[scorer]:
                    job = ScoreJob(own, scorer=scorer, metric=request.metric)
                    jobs.setdefault(self._plan.shard_of(scorer), []).append(job)
        return {
            shard: Wanted(
                jobs=tuple(each),
                models=Parcel.of(self._models, self._state, sorted({job.model for job in each})),
            )
            for shard, each in sorted(jobs.items())
        }

    def _values(self, jobs: list[ScoreJob]) -> list[float]:
        here = [job for job in jobs if job not in self._scores]
        known = dict(zip(here, super()._values(here), strict=True)) | self._scores
        return [known[job] for job in jobs]

    def _push(self, sender: PeerId, receiver: PeerId) -> None:
        if receiver in self._state.numbers:
            super()._push(sender, receiver)
        else:
            self._sent_to(receiver).pushes.append((sender, receiver))

    def _keep_pushed(self, receiver: PeerId, offer: Offer, model: Matrix) -> None:
        row = self._state.numbers.index(receiver)
        self._inboxes[row][offer.peer] = PushedModel(offer, np.array(model))

    def _deliver(self, reporter: PeerId, receiver: PeerId, value: float) -> None:
        if receiver in self._state.numbers:
            super()._deliver(reporter, receiver, value)
        else:
            self._sent_to(receiver).reports.append((reporter, receiver, value))

    def _sent_to(self, receiver: PeerId) -> Sent:
        return self._sent.setdefault(self._plan.shard_of(receiver), Sent())
