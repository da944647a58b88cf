"""The runtime of simulated peers: advances them together, and answers equal requests together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.learning.trainer import Matrix, ModelReference
from coterie.randomness import generator
from coterie.runtime.best_models import Peers
from coterie.runtime.driver import NUMBER_BYTES, Answers, Runtime
from coterie.runtime.estimate_records import recorded_peers
from coterie.runtime.exchange_log import message_bytes
from coterie.runtime.model_store import ModelStore
from coterie.runtime.published_models import PublishedModels
from coterie.runtime.round import Round
from coterie.runtime.scoring import KnownScores, ScoreJob, score_models
from coterie.runtime.true_similarity import true_similarities, watched_measurements
from coterie.strategies.requests import (
    AskScore,
    Fetch,
    Offer,
    PeerId,
    Receive,
    ReceiveReports,
    Report,
    Score,
    Send,
)
from coterie.strategies.strategy import Strategy


@dataclass(frozen=True)
class PushedModel:
    """A model that was pushed to a peer."""

    offer: Offer
    model: Matrix

    def save(self) -> dict[str, Any]:
        """Return it as plain data."""
        message = dict(self.offer.message)
        return {"model": self.model, "num_samples": self.offer.num_samples, "message": message}

    @classmethod
    def restore(cls, sender: PeerId, saved: dict[str, Any]) -> PushedModel:
        """Return what `save` saved."""
        return cls(Offer(sender, saved["num_samples"], saved["message"]), saved["model"])


class PeerRuntime(Runtime):
    """Runs the rounds of many peers; each strategy sees only what a real peer sees."""

    def __init__(self, state: ModelStore, strategies: list[Strategy]) -> None:
        super().__init__(state, strategies)
        state.settings.watch.check(state.datasets.num_peers_in_network)
        asked = (strategy.required_metrics() for strategy in strategies)
        state.keep_for(watched_measurements(state.settings.watch).union(*asked))
        self._everyone = np.arange(state.datasets.num_peers_in_network)
        recorded = recorded_peers(state.datasets.clusters(0))
        here = np.isin(recorded, state.numbers)
        self._recorded = recorded[here] - state.numbers.start
        self._models = self._published_models()
        self._inboxes: list[dict[PeerId, PushedModel]] = [{} for _ in strategies]
        self._reports: list[dict[int, float]] = [{} for _ in strategies]
        self._new_reports: list[dict[int, float]] = [{} for _ in strategies]
        """Reports of this round, which arrive in the next."""
        # PENS asks the same peers several times in a round; one evaluation is enough.
        self._evaluated: KnownScores = {}

    def _published_models(self) -> PublishedModels:
        """Return the models that the peers of this runtime can fetch."""
        return PublishedModels(self._state, self._messages)

    def _known(self) -> Peers:
        return self._everyone

    def _exists(self, peer: int) -> bool:
        return 0 <= peer < len(self._everyone)

    def _recorded_peers(self) -> Peers:
        return self._recorded

    def _record_true_similarities(self, now: Round) -> None:
        watch = self._state.settings.watch
        if watch.peers and now.number % watch.every == 0:
            now.similarities = true_similarities(self._state, self._models, now.clusters)

    def _run(self, now: Round) -> None:
        self._record_true_similarities(now)
        active = now.active_peers
        if self._state.settings.schedule == "synchronous":
            self._take_turn(now, active)
            self._end_exchange()
            return
        for peer in generator(self._state.settings.seed, "order", now.number).permutation(active):
            self._take_turn(now, np.array([peer]))
            self._deliver_reports()

    def _end_exchange(self) -> None:
        """Deliver reports; pushed models that were not received are lost."""
        for inbox in self._inboxes:
            inbox.clear()
        self._deliver_reports()

    def _deliver_reports(self) -> None:
        """Deliver the reports of this round."""
        for reports, new in zip(self._reports, self._new_reports, strict=True):
            reports.update(new)
            new.clear()

    def _take_turn(self, now: Round, peers: Peers) -> None:
        self._drive(now, peers)
        self._end_turn(now, peers)

    def _end_turn(self, now: Round, peers: Peers) -> None:
        """Validate and publish the models of peers whose requests are all answered."""
        self._finish(now, peers)
        self._evaluated.clear()

    def _keep_untrained(self, now: Round, peer: int) -> None:
        poisoning = self._state.poisoning
        if not poisoning.is_stale(peer, now.number):  # a stale peer's update is old, too
            super()._keep_untrained(now, peer)
        poisoning.keep_merged(peer, now.number, self._state.current[peer])

    def _release(self, now: Round, peers: Peers) -> None:
        state = self._state
        forges = state.poisoning.forging_peers(now.number)[peers]
        super()._release(now, peers[~forges])
        for peer in peers[forges].tolist():
            state.poisoning.forge(peer, now.number, state.current[peer], state.published[peer])

    def _transmit(
        self, now: Round, kind: str, asker: int, receiver: int, sender: int, extra_bytes: int = 0
    ) -> bool:
        """Send one model over the network and log it; return whether it arrived."""
        other = sender if asker == receiver else receiver
        if not now.reachable[other]:
            return False
        delivered = self._state.network.draw_delivery(asker)
        size = self._state.exchanged.layout.num_bytes + extra_bytes
        now.exchanges.add(kind, receiver, sender, size, delivered)
        return delivered

    def _fetch(self, now: Round, requests: dict[int, Fetch]) -> Answers:
        answers: Answers = {}
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            offers, own = [], self._state.numbers[peer]
            updates = self._state.exchanged.layout.num_bytes * self._num_updates(peer)
            for sender in request.peers:
                if not now.reachable[sender]:
                    continue
                offer = self._models.offer(sender)
                beside = updates + message_bytes(offer.message)
                if self._transmit(now, "fetch", own, own, sender, beside):
                    offers.append(offer)
                    self._held[peer][sender] = self._models.model(sender)
                    self._fetched[peer].add(sender)
            answers[peer] = offers
        return answers

    def _num_updates(self, peer: int) -> int:
        """Return how many vectors of updates a peer needs beside each model it fetches."""
        needs = self.strategies[peer].required_metrics()
        from_others = self._state.settings.initialisation == "independent"
        return ("cosine-last-update" in needs) + ("cosine-total-update" in needs and from_others)

    def _score(self, now: Round, requests: dict[int, Score]) -> Answers:
        jobs, places = [], []
        for peer, request in requests.items():
            own = self._state.numbers[peer]
            for offer in request.offers:
                if offer.peer not in self._fetched[peer]:
                    raise self._rule_broken(now, peer, f"scored peer {offer.peer} without a fetch")
                jobs.append(ScoreJob(offer.peer, scorer=own, metric=request.metric))
                places.append((peer, offer.peer))
        return self._measure(requests, jobs, places)

    def _ask_score(self, now: Round, requests: dict[int, AskScore]) -> Answers:
        jobs, places = [], []
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            own = self._state.numbers[peer]
            for scorer in request.peers:
                if self._transmit(now, "probe", own, scorer, own):
                    jobs.append(ScoreJob(own, scorer=scorer, metric=request.metric))
                    places.append((peer, scorer))
        return self._measure(requests, jobs, places)

    def _measure(
        self, requests: Iterable[int], jobs: list[ScoreJob], places: list[tuple[int, int]]
    ) -> Answers:
        answers: dict[int, dict[int, float]] = {peer: {} for peer in requests}
        values = self._values(jobs)
        for (peer, other), value in zip(places, values, strict=True):
            if not math.isnan(value):
                answers[peer][other] = value
        return answers

    def _values(self, jobs: list[ScoreJob]) -> list[float]:
        """Return the scores of models, NaN where a metric is undefined."""
        return score_models(self._state, self._models, jobs, self._evaluated)

    def _send(self, now: Round, requests: dict[int, Send]) -> Answers:
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            own = self._state.numbers[peer]
            for receiver in request.peers:
                if self._transmit(now, "push", own, receiver, own):
                    self._push(own, receiver)
        return {}

    def _push(self, sender: PeerId, receiver: PeerId) -> None:
        """Put a model into the inbox of a peer."""
        model = self._models.model(sender)
        # In a sequential round the model may change before the receiver's turn.
        in_turn = self._state.settings.schedule == "sequential"
        pushed = PushedModel(self._models.offer(sender), model.copy() if in_turn else model)
        self._inboxes[self._state.numbers.index(receiver)][sender] = pushed

    def _receive(self, now: Round, requests: dict[int, Receive]) -> Answers:
        answers: Answers = {}
        for peer in requests:
            arrivals = dict(sorted(self._inboxes[peer].items()))
            self._inboxes[peer].clear()
            self._held[peer].update({sender: each.model for sender, each in arrivals.items()})
            answers[peer] = [each.offer for each in arrivals.values()]
        return answers

    def _held_model(self, peer: int, other: PeerId) -> ModelReference:
        return self._models.reference(other)

    def _report(self, now: Round, requests: dict[int, Report]) -> Answers:
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            own = self._state.numbers[peer]
            for other, value in request.values.items():
                if now.reachable[other] and self._state.network.draw_delivery(own):
                    now.exchanges.add_reply_bytes(own, other, NUMBER_BYTES)
                    self._deliver(own, other, float(value))
        return {}

    def _deliver(self, reporter: PeerId, receiver: PeerId, value: float) -> None:
        """Keep a report for the receiver's next round."""
        self._new_reports[self._state.numbers.index(receiver)][reporter] = value

    def _receive_reports(self, now: Round, requests: dict[int, ReceiveReports]) -> Answers:
        answers: Answers = {}
        for peer in requests:
            answers[peer] = dict(sorted(self._reports[peer].items()))
            self._reports[peer].clear()
        return answers

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""
        inboxes = [
            {str(sender): pushed.save() for sender, pushed in inbox.items()}
            for inbox in self._inboxes
        ]
        told = [{str(sender): value for sender, value in each.items()} for each in self._reports]
        poisoned = self._state.poisoning.save(self._state.published)
        return {**super().save(), "inboxes": inboxes, "told": told, "poisoned": poisoned}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        super().restore(saved)
        self._state.poisoning.restore(self._state.published, saved["poisoned"])
        self._inboxes = [
            {int(sender): self._restored(int(sender), pushed) for sender, pushed in inbox.items()}
            for inbox in saved["inboxes"]
        ]
        self._reports = [
            {int(sender): float(value) for sender, value in each.items()} for each in saved["told"]
        ]

    def _restored(self, sender: PeerId, pushed: Matrix | dict[str, Any]) -> PushedModel:
        """Return a pushed model; checkpoints of earlier versions have only its weights."""
        if isinstance(pushed, dict):
            return PushedModel.restore(sender, pushed)
        return PushedModel(self._models.offer(sender), pushed)
