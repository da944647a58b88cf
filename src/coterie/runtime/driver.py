"""Drives the strategies of peers: the part of all runtimes that does not move models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from coterie.data.pools import Samples
from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, Evaluation, Matrix, ModelReference, TrainJob
from coterie.randomness import generator, key_bits
from coterie.runtime.best_models import Peers, copy_rows
from coterie.runtime.estimate_records import estimate_columns
from coterie.runtime.merge_handler import MergeHandler
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.strategies.requests import (
    AskScore,
    Fetch,
    Merge,
    Plan,
    Receive,
    ReceiveReports,
    Report,
    Request,
    Score,
    Send,
    Train,
    Validate,
    ValidateMerge,
)
from coterie.strategies.strategy import Me, Strategy

Answers = dict[int, Any]
NUMBER_BYTES = 8
"""The size of one reported number."""


ANSWER_ORDER: tuple[type[Request], ...] = (
    Send,
    Fetch,
    AskScore,
    Score,
    Validate,
    Report,
    Receive,
    ReceiveReports,
    ValidateMerge,
    Merge,
    Train,
)
"""Waiting requests are answered in this order: what peers send comes before what they receive, and
training comes last, so that all peers train together."""


class Runtime(ABC):
    """Answers the requests of the peers in `state`; a subclass moves models between peers.

    The peers of this runtime are the rows of `state`, whose numbers are `state.numbers`. Requests
    are kept by row. The peers in them are numbers, also those of other runtimes.
    """

    def __init__(self, state: ModelStore, strategies: list[Strategy]) -> None:
        self._state = state
        self.strategies = strategies
        self._all_peers = np.arange(state.num_peers)
        self._messages = [strategy.message() for strategy in strategies]
        self._held: list[dict[int, Matrix]] = [{} for _ in strategies]
        """Models of other peers that each peer holds in this round."""
        self._fetched: list[set[int]] = [set() for _ in strategies]
        self._merges = MergeHandler(state, self._held, self._rule_broken)
        self._trainings = np.zeros(state.num_peers, dtype=np.int64)
        self._plans: dict[int, Plan] = {}
        self._waiting: dict[int, Request] = {}
        """The requests that wait for an answer, by row."""
        self._restrained: dict[int, Evaluation] = {}
        """Validation before training, of peers that restrain their training in this round."""
        self._handlers: dict[type[Request], Callable[[Round, dict[int, Any]], Answers]] = {
            Send: self._send,
            Fetch: self._fetch,
            AskScore: self._ask_score,
            Score: self._score,
            Validate: self._validate,
            Report: self._report,
            Receive: self._receive,
            ReceiveReports: self._receive_reports,
            ValidateMerge: self._merges.validate,
            Merge: self._merge,
            Train: self._train,
        }

    def start(self, now: Round) -> None:
        """Run round 0: every peer trains alone once and publishes the result."""
        self._trainings[:] = 0
        self._train(now, {peer: Train() for peer in range(self._state.num_peers)})
        self._finish(now, self._all_peers)

    def run(self, now: Round) -> None:
        """Run one round for the active peers."""
        self._trainings[:] = 0
        self._run(now)
        now.chosen = [strategy.neighbours() for strategy in self.strategies]

    @abstractmethod
    def _run(self, now: Round) -> None:
        """Drive and finish the active peers, in any order."""

    @abstractmethod
    def _known(self) -> Peers:
        """Return the numbers of all known peers, those of this runtime included."""

    @abstractmethod
    def _recorded_peers(self) -> Peers:
        """Return the rows of the peers whose estimates are recorded."""

    @abstractmethod
    def _send(self, now: Round, requests: dict[int, Send]) -> Answers:
        """Push models."""

    @abstractmethod
    def _fetch(self, now: Round, requests: dict[int, Fetch]) -> Answers:
        """Fetch models and hold them."""

    @abstractmethod
    def _ask_score(self, now: Round, requests: dict[int, AskScore]) -> Answers:
        """Let other peers score models."""

    @abstractmethod
    def _score(self, now: Round, requests: dict[int, Score]) -> Answers:
        """Score fetched models."""

    @abstractmethod
    def _receive(self, now: Round, requests: dict[int, Receive]) -> Answers:
        """Take pushed models and hold them."""

    @abstractmethod
    def _report(self, now: Round, requests: dict[int, Report]) -> Answers:
        """Send numbers to other peers, which receive them in the next round."""

    @abstractmethod
    def _receive_reports(self, now: Round, requests: dict[int, ReceiveReports]) -> Answers:
        """Return the numbers that were reported to peers."""

    @abstractmethod
    def _held_model(self, peer: int, other: int) -> ModelReference:
        """Return the reference of a model that a peer holds."""

    def record_estimates(self, now: Round) -> None:
        """Record the peers' estimates of each other, and the probabilities of the next choice."""
        estimates = {}
        for row in self._recorded_peers().tolist():
            # A separate generator, so that recording does not change the draws of the next round.
            key = self._state.keys[row]
            rng = generator(self._state.settings.seed, "beliefs", key, now.number)
            me = self._me(now, row, now.number + 1, rng)
            estimates[self._state.numbers[row]] = self.strategies[row].estimates(me)
        now.estimates = estimate_columns(estimates, now.clusters)

    def _drive(self, now: Round, peers: Peers) -> None:
        """Answer all requests of a round of some peers."""
        self._begin_plans(now, peers)
        while (kind := self._next_kind()) is not None:
            self._answer(now, kind)

    def _begin_plans(self, now: Round, peers: Peers) -> None:
        """Begin the round of some peers: each makes its first request."""
        seed = self._state.settings.seed
        self._plans.clear()
        for peer in peers.tolist():
            rng = generator(seed, "strategy", self._state.keys[peer], now.number)
            self._plans[peer] = self.strategies[peer].round(self._me(now, peer, now.number, rng))
            self._held[peer].clear()
            self._fetched[peer].clear()
        for peer in self._plans:
            self._step(peer, None)

    def _next_kind(self) -> type[Request] | None:
        """Return the kind of requests to answer next; None if no request waits."""
        waiting = {type(request) for request in self._waiting.values()}
        return next((kind for kind in ANSWER_ORDER if kind in waiting), None)

    def _answer(self, now: Round, kind: type[Request]) -> None:
        """Answer all waiting requests of a kind, which makes peers send their next requests."""
        batch = self._batch(kind)
        answers = self._handlers[kind](now, batch) if batch else {}
        for peer in batch:
            del self._waiting[peer]
            self._step(peer, answers.get(peer))

    def _batch(self, kind: type[Request]) -> dict[int, Any]:
        """Return the waiting requests of a kind, in the order of peers."""
        rows = sorted(row for row, request in self._waiting.items() if type(request) is kind)
        return {row: self._waiting[row] for row in rows}

    def _step(self, peer: int, answer: Any) -> None:
        request = next_request(self._plans[peer], answer)
        if type(request) is not Merge:
            self._merges.forget_trial(peer)
        if request is None:
            return
        if type(request) not in self._handlers:
            raise StrategyError(
                f"Strategy '{self.strategies[peer].name}' yielded {request!r}, which is not a "
                f"request. Use one of {', '.join(kind.__name__ for kind in ANSWER_ORDER)}."
            )
        self._waiting[peer] = request

    def _me(self, now: Round, peer: int, number: int, rng: np.random.Generator) -> Me:
        return Me(
            peer=self._state.numbers[peer],
            round=number,
            known=self._known(),
            num_samples=len(self._state.samples[peer].train),
            rng=rng,
            validation_score=float(now.measures["validation_score_before"][peer]),
            truth=now.truth if self.strategies[peer].uses_ground_truth else None,
        )

    @abstractmethod
    def _exists(self, peer: int) -> bool:
        """Return whether a peer of this number exists."""

    def _check_targets(
        self, now: Round, peer: int, request: Fetch | AskScore | Send | Report
    ) -> None:
        own = self._state.numbers[peer]
        for target in request.peers:
            if target == own or not self._exists(target):
                wrong = "itself" if target == own else f"peer {target}, which does not exist"
                raise self._rule_broken(now, peer, f"chose {wrong} in {request}")

    def _rule_broken(self, now: Round, peer: int, what: str) -> StrategyError:
        return StrategyError(
            f"Strategy '{self.strategies[peer].name}' of peer {self._state.numbers[peer]} {what}, "
            f"in round {now.number}."
        )

    def _validate(self, now: Round, requests: dict[int, Validate]) -> Answers:
        answers: Answers = {peer: {} for peer in requests}
        jobs, pairs, own = [], [], []
        for peer, request in requests.items():
            samples, number = self._measured_on(now, peer, request), self._state.numbers[peer]
            for other in request.peers:
                if other == number and samples is self._state.samples[peer].validation:
                    own.append(peer)  # may have been validated already
                    continue
                buffers = None if other == number else self._state.local_buffers(peer)
                jobs.append(EvaluateJob(self._model(now, peer, other), samples, buffers=buffers))
                pairs.append((peer, other))
        pairs += [(peer, self._state.numbers[peer]) for peer in own]
        results = [*self._state.trainer.evaluate(jobs), *self._state.validation(own)]
        for (peer, other), result in zip(pairs, results, strict=True):
            answers[peer][other] = result.losses
        return answers

    def _measured_on(self, now: Round, peer: int, request: Validate) -> Samples:
        """Return the samples that models are measured on."""
        data = self._state.samples[peer]
        if request.data not in ("validation", "train"):
            raise self._rule_broken(now, peer, f"asked to measure on {request.data!r} data")
        return data.validation if request.data == "validation" else data.train

    def _model(self, now: Round, peer: int, other: int) -> ModelReference:
        """Return the reference of the peer's working model, or of a fetched one."""
        if other == self._state.numbers[peer]:
            return ModelReference("current", peer)
        if other not in self._fetched[peer]:
            raise self._rule_broken(now, peer, f"validated peer {other} without a fetch")
        return self._held_model(peer, other)

    def _merge(self, now: Round, requests: dict[int, Merge]) -> Answers:
        return self._merges.merge(now, requests)

    def _train(self, now: Round, requests: dict[int, Train]) -> Answers:
        state = self._state
        state.validate_merged(now, np.array([p for p in requests if now.merged[p]], np.int64))
        jobs = {
            peer: job
            for peer, request in requests.items()
            if (job := self._training(now, peer, request)).epochs > 0
        }
        undoable = np.array([p for p, r in requests.items() if r.only_if_better], np.int64)
        before, kept = state.validation_losses(undoable), state.current[undoable]
        losses = dict(zip(jobs, state.trainer.train(list(jobs.values())), strict=True))
        state.forget_validation(jobs)
        state.record_training_losses(now, losses)
        worse = ~(state.validation_losses(undoable) < before)
        state.current[undoable[worse]] = kept[worse]
        state.forget_validation(undoable[worse])
        return losses

    def _training(self, now: Round, peer: int, request: Train) -> TrainJob:
        if request.epochs is not None and request.epochs < 0:
            raise self._rule_broken(now, peer, f"asked to train for {request.epochs} epochs")
        state, count = self._state, int(self._trainings[peer])
        if count == 0:
            self._keep_untrained(now, peer)
        self._trainings[peer] += 1
        return TrainJob(
            ModelReference("current", peer),
            state.samples[peer].train,
            self._epochs(peer, request),
            key_bits(state.settings.seed, "training", state.keys[peer], now.number, count),
            state.depth(request.last_layers),
        )

    def _epochs(self, peer: int, request: Train) -> int:
        """Return the number of epochs; remember the validation of peers that restrain theirs."""
        training = self._state.settings.training
        if request.last_layers == "classifier" and self._state.layout.is_all_classifier:
            return 0  # the classifier is the whole model, which other requests train
        restrained = training.restraint
        if restrained is None:
            restrained = request.restrained
        # A training that is kept only if it improves the model needs no restraint.
        if request.epochs is not None or request.only_if_better or not restrained:
            return training.epochs if request.epochs is None else request.epochs
        if peer not in self._restrained:
            (self._restrained[peer],) = self._state.validation([peer])
        return int(self._state.restraint.epochs[peer])

    def _finish(self, now: Round, peers: Peers) -> None:
        """Validate the models after the round and publish them."""
        self._state.validate_trained(now, peers)
        for peer, before in self._restrained.items():
            (after,) = self._state.validation([peer])
            self._state.restraint.record_training(peer, before.losses, after.losses)
        self._restrained.clear()
        self._release(now, peers)
        for peer in peers:
            self._messages[peer] = self.strategies[peer].message()

    def _keep_untrained(self, now: Round, peer: int) -> None:
        """Keep a copy of a model before training, if its update will be measured."""
        if self._state.untrained is not None:
            self._state.untrained[peer] = self._state.current[peer]

    def _release(self, now: Round, peers: Peers) -> None:
        """Publish the working models."""
        copy_rows(self._state.published, self._state.current, peers)

    def serve_best(self, peers: Peers) -> None:
        """Publish the best models of peers that have just stopped."""
        copy_rows(self._state.current, self._state.best, peers)
        copy_rows(self._state.published, self._state.best, peers)
        self._state.forget_validation(peers)

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""
        return {
            "strategies": [strategy.save() for strategy in self.strategies],
            "messages": [dict(message) for message in self._messages],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        for strategy, state in zip(self.strategies, saved["strategies"], strict=True):
            strategy.restore(state)
        self._messages[:] = saved["messages"]


def next_request(plan: Plan, answer: Any) -> Request | None:
    """Answer a plan's last request and return its next one; None if the plan has ended."""
    try:
        return plan.send(answer)
    except StopIteration:
        return None
