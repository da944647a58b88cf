"""Answers the requests of peers' strategies: steps all together, equal requests at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import StrategyError
from coterie.learning.trainer import Matrix, ModelReference, TrainJob
from coterie.randomness import generator, key_bits
from coterie.simulation.believing import asked_peers, belief_columns
from coterie.simulation.round import Round
from coterie.simulation.scoring import Known, Question, measure
from coterie.simulation.state import State, copy_rows
from coterie.simulation.watching import true_similarities, watched_measurements
from coterie.strategies.base import (
    AskScore,
    Fetch,
    Me,
    Merge,
    Offer,
    Plan,
    Receive,
    Request,
    Score,
    Send,
    Strategy,
    Train,
)

Answers = dict[int, Any]


class PeerRuntime:
    """Drives the rounds of many peers; each strategy sees just what a real peer would."""

    def __init__(self, state: State, strategies: list[Strategy]) -> None:
        self._state = state
        self.strategies = strategies
        self._everybody = np.arange(state.num_peers)
        state.settings.watch.check(state.num_peers)
        asked = (strategy.needs() for strategy in strategies)
        state.keep_for(watched_measurements(state.settings.watch).union(*asked))
        self._asked = asked_peers(state.world.clusters(0))
        self._messages = [strategy.message() for strategy in strategies]
        self._inboxes: list[dict[int, Matrix]] = [{} for _ in strategies]
        self._held: list[dict[int, Matrix]] = [{} for _ in strategies]
        self._fetched: list[set[int]] = [set() for _ in strategies]
        # PENS asks the same peers several times within a round: one evaluation answers them all.
        self._known: Known = {}
        self._trainings = np.zeros(state.num_peers, dtype=np.int64)
        # The order in which waiting requests are answered: what peers send each other comes
        # before what they receive, and training last, so that all peers train together.
        self._handlers: dict[type[Request], Callable[[Round, dict[int, Any]], Answers]] = {
            Send: self._send,
            Fetch: self._fetch,
            AskScore: self._ask_score,
            Score: self._score,
            Receive: self._receive,
            Merge: self._merge,
            Train: self._train,
        }

    def start(self, now: Round) -> None:
        """Round 0: everybody trains alone once and publishes the result."""
        self._trainings[:] = 0
        self._train(now, {peer: Train() for peer in range(self._state.num_peers)})
        self._finish(now, self._everybody)

    def run(self, now: Round) -> None:
        """Run one round for the active peers."""
        self._trainings[:] = 0
        self._watch(now)
        self._run(now)
        now.chosen = [strategy.neighbours() for strategy in self.strategies]

    def note_beliefs(self, now: Round) -> None:
        """Note what peers believe about each other now, and whom they would choose next."""
        # A generator of its own: whoever draws from it takes nothing from the next round.
        rng = generator(self._state.settings.seed, "beliefs", now.number)
        believed = {
            peer: self.strategies[peer].beliefs(self._me(now, peer, now.number + 1, rng))
            for peer in self._asked.tolist()
        }
        now.beliefs = belief_columns(believed, now.truth.clusters)

    def _watch(self, now: Round) -> None:
        watch = self._state.settings.watch
        if watch.peers and now.number % watch.every == 0:
            now.similarities = true_similarities(self._state, now.truth.clusters)

    def _run(self, now: Round) -> None:
        active = now.active_peers
        if self._state.settings.schedule == "synchronous":
            self._drive(now, active)
            self._finish(now, active)
            # What was pushed to somebody who did not take it is gone with the round.
            self._inboxes = [{} for _ in self._inboxes]
            return
        for peer in generator(self._state.settings.seed, "order", now.number).permutation(active):
            turn = np.array([peer])
            self._drive(now, turn)
            self._finish(now, turn)

    def _drive(self, now: Round, peers: npt.NDArray[np.int64]) -> None:
        seed = self._state.settings.seed
        plans = {}
        for peer in peers.tolist():
            rng = generator(seed, "strategy", peer, now.number)
            plans[peer] = self.strategies[peer].round(self._me(now, peer, now.number, rng))
        for peer in plans:
            self._held[peer].clear()
            self._fetched[peer].clear()
        waiting: dict[int, Request] = {}
        for peer, plan in plans.items():
            self._step(plan, peer, None, waiting)
        while waiting:
            kind = next(k for k in self._handlers if any(type(r) is k for r in waiting.values()))
            batch = {peer: r for peer, r in waiting.items() if type(r) is kind}
            answers = self._handlers[kind](now, batch)
            for peer in batch:
                del waiting[peer]
                self._step(plans[peer], peer, answers.get(peer), waiting)

    def _step(self, plan: Plan, peer: int, answer: Any, waiting: dict[int, Request]) -> None:
        try:
            request = plan.send(answer)
        except StopIteration:
            return
        if type(request) not in self._handlers:
            raise StrategyError(
                f"Strategy '{self.strategies[peer].name}' yielded {request!r}, which is not a "
                f"request; use one of {', '.join(kind.__name__ for kind in self._handlers)}."
            )
        waiting[peer] = request

    def _me(self, now: Round, peer: int, number: int, rng: np.random.Generator) -> Me:
        return Me(
            peer=peer,
            round=number,
            known=self._everybody,
            num_samples=len(self._state.samples[peer].train),
            rng=rng,
            validation_accuracy=float(now.measures["validation_accuracy_before"][peer]),
            truth=now.truth if self.strategies[peer].uses_ground_truth else None,
        )

    def _transmit(
        self, now: Round, kind: str, asker: int, receiver: int, sender: int, extra_bytes: int = 0
    ) -> bool:
        """Send one model over the network and note it; return whether it arrived."""
        other = sender if asker == receiver else receiver
        if not now.online[other]:
            return False
        delivered = self._state.network.delivers(asker)
        size = self._state.layout.num_bytes + extra_bytes
        now.exchanges.add(kind, receiver, sender, size, delivered)
        return delivered

    def _check_targets(self, now: Round, peer: int, request: Fetch | AskScore | Send) -> None:
        for target in request.peers:
            if target == peer or not 0 <= target < self._state.num_peers:
                wrong = "itself" if target == peer else f"peer {target}, who does not exist"
                raise self._broken(now, peer, f"chose {wrong} in {request}")

    def _broken(self, now: Round, peer: int, what: str) -> StrategyError:
        return StrategyError(
            f"Strategy '{self.strategies[peer].name}' of peer {peer} {what}, in round {now.number}."
        )

    def _fetch(self, now: Round, requests: dict[int, Fetch]) -> Answers:
        answers: Answers = {}
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            offers = []
            updates = self._state.layout.num_bytes * self._num_updates(peer)
            for sender in request.peers:
                beside = updates + sum(array.nbytes for array in self._messages[sender].values())
                if self._transmit(now, "fetch", peer, peer, sender, beside):
                    offers.append(self._offer(sender))
                    self._held[peer][sender] = self._state.published[sender]
                    self._fetched[peer].add(sender)
            answers[peer] = offers
        return answers

    def _num_updates(self, peer: int) -> int:
        """Return how many vectors of changes a peer needs beside each model it fetches."""
        needs = self.strategies[peer].needs()
        from_others = self._state.settings.initialisation == "independent"
        return ("cosine-last-update" in needs) + ("cosine-total-update" in needs and from_others)

    def _offer(self, sender: int) -> Offer:
        return Offer(sender, len(self._state.samples[sender].train), self._messages[sender])

    def _score(self, now: Round, requests: dict[int, Score]) -> Answers:
        questions, places = [], []
        for peer, request in requests.items():
            for offer in request.offers:
                if offer.peer not in self._fetched[peer]:
                    raise self._broken(now, peer, f"scored peer {offer.peer} without a fetch")
                questions.append(Question(offer.peer, judge=peer, metric=request.metric))
                places.append((peer, offer.peer))
        return self._measure(requests, questions, places)

    def _ask_score(self, now: Round, requests: dict[int, AskScore]) -> Answers:
        questions, places = [], []
        for peer, request in requests.items():
            self._check_targets(now, peer, request)
            for judge in request.peers:
                if self._transmit(now, "probe", peer, judge, peer):
                    questions.append(Question(peer, judge=judge, metric=request.metric))
                    places.append((peer, judge))
        return self._measure(requests, questions, places)

    def _measure(
        self, requests: Iterable[int], questions: list[Question], places: list[tuple[int, int]]
    ) -> Answers:
        answers: dict[int, dict[int, float]] = {peer: {} for peer in requests}
        values = measure(self._state, questions, self._known)
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
                    # In turn, a published model may change before the receiver's turn comes.
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

    def _merge(self, now: Round, requests: dict[int, Merge]) -> Answers:
        for peer, request in requests.items():
            self._check_merge(now, peer, request.weights)
            mine = self._state.current[peer]
            for part in self._state.layout.last_layers(self._state.depth(request.last_layers)):
                mine[part] *= np.float32(request.weights.get(peer, 0.0))
                for other, weight in request.weights.items():
                    if other != peer:
                        mine[part] += np.float32(weight) * self._held[peer][other][part]
            for other, weight in request.weights.items():
                if other != peer:
                    now.exchanges.merged(peer, other, weight)
                    now.merged[peer] = True
        return {}

    def _check_merge(self, now: Round, peer: int, weights: Mapping[int, float]) -> None:
        for other, weight in weights.items():
            if other != peer and other not in self._held[peer]:
                raise self._broken(now, peer, f"merged peer {other} without having its model")
            if not math.isfinite(weight):
                raise self._broken(now, peer, f"gave peer {other} the merge weight {weight}")
        if not math.isclose(sum(weights.values()), 1.0, abs_tol=1e-6):
            raise self._broken(
                now, peer, f"merged with weights that sum to {sum(weights.values())} instead of 1"
            )

    def _train(self, now: Round, requests: dict[int, Train]) -> Answers:
        self._state.validate_merged(now, np.array([p for p in requests if now.merged[p]], np.int64))
        state, jobs = self._state, []
        for peer, request in requests.items():
            bits = key_bits(
                state.settings.seed, "training", peer, now.number, int(self._trainings[peer])
            )
            if self._state.untrained is not None and self._trainings[peer] == 0:
                self._state.untrained[peer] = self._state.current[peer]
            self._trainings[peer] += 1
            jobs.append(
                TrainJob(
                    ModelReference("current", peer),
                    state.samples[peer].train,
                    request.epochs or state.settings.training.epochs,
                    bits,
                    state.depth(request.last_layers),
                )
            )
        careful = np.array([p for p, r in requests.items() if r.only_if_better], np.int64)
        before, kept = state.validation_losses(careful), state.current[careful]
        losses = dict(zip(requests, state.trainer.train(jobs), strict=True))
        state.note_training(now, losses)
        worse = ~(state.validation_losses(careful) < before)
        state.current[careful[worse]] = kept[worse]
        return losses

    def _finish(self, now: Round, peers: npt.NDArray[np.int64]) -> None:
        """Validate what came out of the round and publish it."""
        self._state.validate_trained(now, peers)
        copy_rows(self._state.published, self._state.current, peers)
        self._known.clear()
        for peer in peers:
            self._messages[peer] = self.strategies[peer].message()

    def serve_best(self, peers: npt.NDArray[np.int64]) -> None:
        """From now on these peers, which have stopped, serve their best models."""
        copy_rows(self._state.current, self._state.best, peers)
        copy_rows(self._state.published, self._state.best, peers)

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""
        return {
            "strategies": [strategy.save() for strategy in self.strategies],
            "messages": [dict(message) for message in self._messages],
            "inboxes": [
                {str(sender): model for sender, model in inbox.items()} for inbox in self._inboxes
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        for strategy, state in zip(self.strategies, saved["strategies"], strict=True):
            strategy.restore(state)
        self._messages = list(saved["messages"])
        self._inboxes = [
            {int(sender): model for sender, model in inbox.items()} for inbox in saved["inboxes"]
        ]
