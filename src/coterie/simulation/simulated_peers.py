"""The runtime of simulated peers: advances them together, and answers equal requests together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from coterie.learning.trainer import Matrix, ModelReference
from coterie.randomness import generator
from coterie.runtime.best_models import Peers
from coterie.runtime.driver import NUMBER_BYTES, Answers, Runtime
from coterie.runtime.estimate_records import recorded_peers
from coterie.runtime.exchange_log import message_bytes
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.runtime.scoring import KnownScores, ScoreJob, score_models
from coterie.runtime.true_similarity import true_similarities, watched_measurements
from coterie.strategies.requests import (
    AskScore,
    Fetch,
    Offer,
    Receive,
    ReceiveReports,
    Report,
    Score,
    Send,
)
from coterie.strategies.strategy import Strategy


class PeerRuntime(Runtime):
    """Runs the rounds of many peers; each strategy sees only what a real peer sees."""

    def __init__(self, state: ModelStore, strategies: list[Strategy]) -> None:
        super().__init__(state, strategies)
        state.settings.watch.check(state.num_peers)
        asked = (strategy.required_metrics() for strategy in strategies)
        state.keep_for(watched_measurements(state.settings.watch).union(*asked))
        self._recorded = recorded_peers(state.datasets.clusters(0))
        self._inboxes: list[dict[int, Matrix]] = [{} for _ in strategies]
        self._reports: list[dict[int, float]] = [{} for _ in strategies]
        self._new_reports: list[dict[int, float]] = [{} for _ in strategies]
        """Reports of this round, which arrive in the next."""
        # PENS asks the same peers several times in a round; one evaluation is enough.
        self._evaluated: KnownScores = {}

    def _known(self) -> Peers:
        return self._all_peers

    def _exists(self, peer: int) -> bool:
        return 0 <= peer < self._state.num_peers

    def _recorded_peers(self) -> Peers:
        return self._recorded

    def _record_true_similarities(self, now: Round) -> None:
        watch = self._state.settings.watch
        if watch.peers and now.number % watch.every == 0:
            now.similarities = true_similarities(self._state, now.clusters)

    def _run(self, now: Round) -> None:
        self._record_true_similarities(now)
        active = now.active_peers
        if self._state.settings.schedule == "synchronous":
            self._take_turn(now, active)
            # Pushed models that were not received are lost at the end of the round.
            self._inboxes = [{} for _ in self._inboxes]
            self._deliver_reports()
            return
        for peer in generator(self._state.settings.seed, "order", now.number).permutation(active):
            self._take_turn(now, np.array([peer]))
            self._deliver_reports()

    def _deliver_reports(self) -> None:
        """Deliver the reports of this round."""
        for reports, new in zip(self._reports, self._new_reports, strict=True):
            reports.update(new)
            new.clear()

    def _take_turn(self, now: Round, peers: Peers) -> None:
        self._drive(now, peers)
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
        if not now.online[other]:
            return False
        delivered = self._state.network.draw_delivery(asker)
        size = self._state.exchanged.layout.num_bytes + extra_bytes
        now.exchanges.add(kind, receiver, sender, size, delivered)
        return delivered

    def _fetch(self, now: Round, requests: dict[int, Fetch]) -> Answers:
        answers: Answers = {}
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            offers = []
            updates = self._state.exchanged.layout.num_bytes * self._num_updates(peer)
            for sender in request.peers:
                beside = updates + message_bytes(self._messages[sender])
                if self._transmit(now, "fetch", peer, peer, sender, beside):
                    offers.append(self._offer(sender))
                    self._held[peer][sender] = self._state.published[sender]
                    self._fetched[peer].add(sender)
            answers[peer] = offers
        return answers

    def _num_updates(self, peer: int) -> int:
        """Return how many vectors of updates a peer needs beside each model it fetches."""
        needs = self.strategies[peer].required_metrics()
        from_others = self._state.settings.initialisation == "independent"
        return ("cosine-last-update" in needs) + ("cosine-total-update" in needs and from_others)

    def _offer(self, sender: int) -> Offer:
        return Offer(sender, len(self._state.samples[sender].train), self._messages[sender])

    def _score(self, now: Round, requests: dict[int, Score]) -> Answers:
        jobs, places = [], []
        for peer, request in requests.items():
            for offer in request.offers:
                if offer.peer not in self._fetched[peer]:
                    raise self._rule_broken(now, peer, f"scored peer {offer.peer} without a fetch")
                jobs.append(ScoreJob(offer.peer, scorer=peer, metric=request.metric))
                places.append((peer, offer.peer))
        return self._measure(requests, jobs, places)

    def _ask_score(self, now: Round, requests: dict[int, AskScore]) -> Answers:
        jobs, places = [], []
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            for scorer in request.peers:
                if self._transmit(now, "probe", peer, scorer, peer):
                    jobs.append(ScoreJob(peer, scorer=scorer, metric=request.metric))
                    places.append((peer, scorer))
        return self._measure(requests, jobs, places)

    def _measure(
        self, requests: Iterable[int], jobs: list[ScoreJob], places: list[tuple[int, int]]
    ) -> Answers:
        answers: dict[int, dict[int, float]] = {peer: {} for peer in requests}
        values = score_models(self._state, jobs, self._evaluated)
        for (peer, other), value in zip(places, values, strict=True):
            if not math.isnan(value):
                answers[peer][other] = value
        return answers

    def _send(self, now: Round, requests: dict[int, Send]) -> Answers:
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            for receiver in request.peers:
                if self._transmit(now, "push", peer, receiver, peer):
                    model = self._state.published[peer]
                    # In a sequential round the model may change before the receiver's turn.
                    in_turn = self._state.settings.schedule == "sequential"
                    self._inboxes[receiver][peer] = model.copy() if in_turn else model
        return {}

    def _receive(self, now: Round, requests: dict[int, Receive]) -> Answers:
        answers: Answers = {}
        for peer in requests:
            arrivals = self._inboxes[peer]
            self._inboxes[peer] = {}
            self._held[peer].update(arrivals)
            answers[peer] = [self._offer(sender) for sender in sorted(arrivals)]
        return answers

    def _held_model(self, peer: int, other: int) -> ModelReference:
        return ModelReference("published", other)

    def _report(self, now: Round, requests: dict[int, Report]) -> Answers:
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            for other, value in request.values.items():
                if now.online[other] and self._state.network.draw_delivery(peer):
                    now.exchanges.add_reply_bytes(peer, other, NUMBER_BYTES)
                    self._new_reports[other][peer] = float(value)
        return {}

    def _receive_reports(self, now: Round, requests: dict[int, ReceiveReports]) -> Answers:
        answers: Answers = {}
        for peer in requests:
            answers[peer], self._reports[peer] = self._reports[peer], {}
        return answers

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""
        inboxes = [
            {str(sender): model for sender, model in inbox.items()} for inbox in self._inboxes
        ]
        told = [{str(sender): value for sender, value in each.items()} for each in self._reports]
        poisoned = self._state.poisoning.save(self._state.published)
        return {**super().save(), "inboxes": inboxes, "told": told, "poisoned": poisoned}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        super().restore(saved)
        self._state.poisoning.restore(self._state.published, saved["poisoned"])
        self._inboxes = [
            {int(sender): model for sender, model in inbox.items()} for inbox in saved["inboxes"]
        ]
        self._reports = [
            {int(sender): float(value) for sender, value in each.items()} for each in saved["told"]
        ]
