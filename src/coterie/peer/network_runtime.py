"""The runtime of one real peer: the rounds of the simulator, with models from a network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.peer.cost import CostAccounting
from coterie.peer.event_loop_bridge import EventLoopBridge
from coterie.peer.transport.service_interface import PulledModel
from coterie.peer.wire.model import Model, Part, Phase, Vector
from coterie.runtime.best_models import Peers
from coterie.runtime.driver import NUMBER_BYTES, Answers, Runtime
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.runtime.scoring import cosine, distance
from coterie.strategies.requests import (
    AskScore,
    Fetch,
    Merge,
    Metric,
    Offer,
    Receive,
    ReceiveReports,
    Report,
    Score,
    Send,
    Train,
)
from coterie.strategies.strategy import Strategy

ME = 0
"""The only row of the state, and this peer's own number: others are numbered from 1."""
HELD = "held "
"""Prefix of the matrices that hold other peers' models."""
ON_DATA = ("loss", "accuracy")
UPDATES: dict[Metric, Part] = {
    "cosine-last-update": Part.LAST_UPDATE,
    "cosine-total-update": Part.TOTAL_UPDATE,
}


class NetworkRuntime(Runtime):
    """Drives the strategy in a thread of its own, which waits there for the network."""

    def __init__(
        self,
        state: ModelStore,
        strategy: Strategy,
        bridge: EventLoopBridge,
        every_seconds: float = 0.0,
        samples_ratio: float = math.inf,
    ) -> None:
        super().__init__(state, [strategy])
        state.keep_for(strategy.required_metrics())
        self._bridge = bridge
        self._every_seconds = every_seconds
        self._samples_ratio = samples_ratio
        self._begun_at = -math.inf
        self._costs = CostAccounting()
        self._pulled: dict[int, PulledModel] = {}
        self._weights: dict[int, float] = {}
        """Merge weights of this round, by peer."""
        self._last_round = -1
        self._present = np.array([ME])
        """Peers that could be asked when the round began, and this one."""
        self._handlers |= {
            kind: self._after_sending(self._handlers[kind]) for kind in (Receive, Merge, Train)
        }

    def start(self, now: Round) -> None:
        """Run round 0: train alone and publish the result."""
        self._state.trainer = self._costs.wrap_trainer(self._state.trainer)
        self._bridge.report_progress(now.number, Phase.ENTERED)
        super().start(now)
        self._publish(now.number)
        now.efforts = self._costs.take_columns(self._bridge.waited_seconds)

    def _run(self, now: Round) -> None:
        self._state.trainer = self._costs.wrap_trainer(self._state.trainer)
        self._bridge.sleep(max(self._begun_at + self._every_seconds - time.monotonic(), 0))
        self._begun_at = time.monotonic()
        self._bridge.wait_for_others(now.number - 1, Phase.PUBLISHED)
        self._bridge.report_progress(now.number, Phase.ENTERED)
        self._present = np.array([ME, *self._bridge.reachable_peers()], np.int64)
        self._drive(now, self._all_peers)
        self._release_held()
        self._finish(now, self._all_peers)
        self._publish(now.number)
        now.arrivals = _arrival_columns(self._pulled, self._weights)
        self._pulled.clear()
        self._weights.clear()
        now.listed = _list_columns(self.strategies[ME].neighbours())
        now.efforts = self._costs.take_columns(self._bridge.waited_seconds)
        now.num_known = self._bridge.num_peers

    def _known(self) -> Peers:
        return self._present

    def _exists(self, peer: int) -> bool:
        return self._bridge.exists(peer)

    def _recorded_peers(self) -> Peers:
        return self._all_peers

    def _fetch(self, now: Round, requests: dict[int, Fetch]) -> Answers:
        request = requests[ME]
        self._check_targets(now, ME, request)
        offers = []
        for number, pulled in self._bridge.fetch(request.peers, now.number - 1, self._parts()):
            if pulled is None:
                size = self._state.exchanged.layout.num_bytes
                now.exchanges.add("fetch", ME, number, size, delivered=False)
                continue
            now.exchanges.add("fetch", ME, number, pulled.num_bytes, delivered=True)
            offers.append(self._hold(number, pulled))
            self._fetched[ME].add(number)
        return {ME: offers}

    def _parts(self) -> frozenset[Part]:
        """Return the parts to fetch from others: updates only if the strategy compares them."""
        needs = self.strategies[ME].required_metrics()
        from_others = self._state.settings.initialisation == "independent"
        wanted = {Part.MODEL, Part.MESSAGE}
        if "cosine-last-update" in needs:
            wanted.add(Part.LAST_UPDATE)
        if "cosine-total-update" in needs and from_others:
            wanted.add(Part.TOTAL_UPDATE)
        return frozenset(wanted)

    def _hold(self, number: int, pulled: PulledModel) -> Offer:
        """Hold a model; one without buffers gets those of this peer."""
        self._pulled[number] = pulled
        received, own = pulled.model.vectors[Part.MODEL], self._state.published[ME]
        self._held[ME][number] = self._state.exchanged.fill(received, own)
        return Offer(
            number,
            self._limit_samples(pulled.num_samples),
            self._bridge.to_local_numbers(pulled.model.message),
        )

    def _limit_samples(self, num_samples: int) -> int:
        """Return the number of samples another peer may count for in a merge.

        Without the limit, a false number could crowd out this peer's own model.
        """
        return int(min(num_samples, self._samples_ratio * len(self._state.samples[ME].train)))

    def _score(self, now: Round, requests: dict[int, Score]) -> Answers:
        request = requests[ME]
        for offer in request.offers:
            if offer.peer not in self._fetched[ME]:
                raise self._rule_broken(now, ME, f"scored peer {offer.peer} without a fetch")
        numbers = [offer.peer for offer in request.offers]
        if request.metric in ON_DATA:
            values = self._evaluated(numbers, request.metric)
        else:
            mine = self._mine(request.metric)
            values = [
                _compared(request.metric, self._theirs(number, request.metric), mine)
                for number in numbers
            ]
        scores = zip(numbers, values, strict=True)
        return {ME: {number: value for number, value in scores if not math.isnan(value)}}

    def _release_held(self) -> None:
        """Release other peers' models, which the round needs no longer."""
        matrices = self._state.workspace.matrices
        for name in [name for name in matrices if name.startswith(HELD)]:
            del matrices[name]

    def _held_model(self, peer: int, other: int) -> ModelReference:
        name = f"{HELD}{other}"
        self._state.workspace.matrices[name] = self._held[ME][other][np.newaxis]
        return ModelReference(name, 0)

    def _evaluated(self, numbers: list[int], metric: Metric) -> list[float]:
        """Return the metric of held models on this peer's training data."""
        state = self._state
        jobs = []
        for number in numbers:
            jobs.append(EvaluateJob(self._held_model(ME, number), state.samples[ME].train))
        results = state.trainer.evaluate(jobs)
        return [each.loss if metric == "loss" else each.score for each in results]

    def _mine(self, metric: Metric) -> Vector:
        """Return the published vector that a metric compares: the weights or their change."""
        return self._published(UPDATES.get(metric, Part.MODEL))

    def _theirs(self, number: int, metric: Metric) -> Vector:
        vectors = self._pulled[number].model.vectors
        part = UPDATES.get(metric, Part.MODEL)
        if part not in vectors and part == Part.TOTAL_UPDATE and self._state.initial is not None:
            # All peers start from the same weights, so the model itself shows the change.
            initial = self._state.exchanged.take(self._state.initial[ME])
            change: Vector = vectors[Part.MODEL] - initial
            return change
        return vectors[part]

    def _ask_score(self, now: Round, requests: dict[int, AskScore]) -> Answers:
        request = requests[ME]
        self._check_targets(now, ME, request)
        values = self._bridge.ask_score(request.peers, request.metric, now.number)
        for scorer in request.peers:
            if scorer in values:
                size = self._state.exchanged.layout.num_bytes
                now.exchanges.add("probe", scorer, ME, size, delivered=True)
        return {ME: {scorer: value for scorer, value in values.items() if not math.isnan(value)}}

    def _report(self, now: Round, requests: dict[int, Report]) -> Answers:
        request = requests[ME]
        self._check_targets(now, ME, request)
        for other in self._bridge.report(request.values, now.number):
            now.exchanges.add_reply_bytes(ME, other, NUMBER_BYTES)
        return {}

    def _receive_reports(self, now: Round, requests: dict[int, ReceiveReports]) -> Answers:
        return {ME: self._bridge.receive_reports(now.number)}

    def _send(self, now: Round, requests: dict[int, Send]) -> Answers:
        request = requests[ME]
        self._check_targets(now, ME, request)
        for receiver in self._bridge.push(request.peers, now.number):
            size = self._state.exchanged.layout.num_bytes
            now.exchanges.add("push", receiver, ME, size, delivered=True)
        return {}

    def _receive(self, now: Round, requests: dict[int, Receive]) -> Answers:
        self._bridge.wait_for_others(now.number, Phase.SENT)
        arrivals = self._bridge.take_pushed()
        return {ME: [self._hold(number, arrivals[number]) for number in sorted(arrivals)]}

    def _merge(self, now: Round, requests: dict[int, Merge]) -> Answers:
        self._weights.update(requests[ME].weights)
        return super()._merge(now, requests)

    def _after_sending(
        self, handle: Callable[[Round, dict[int, Any]], Answers]
    ) -> Callable[[Round, dict[int, Any]], Answers]:
        """Return a handler that first reports that this peer sends nothing more in this round."""

        def handle_after(now: Round, requests: dict[int, Any]) -> Answers:
            self._bridge.report_progress(now.number, Phase.SENT)
            return handle(now, requests)

        return handle_after

    def _publish(self, number: int) -> None:
        """Offer the result of a round to other peers."""
        parts = [Part.MODEL]
        parts += [Part.LAST_UPDATE] * (self._state.untrained is not None)
        parts += [Part.TOTAL_UPDATE] * (self._state.initial is not None)
        model = Model(
            {part: self._published(part).copy() for part in parts},
            self._bridge.to_ids(self._messages[ME]),
            None if self._state.exchanged.is_whole else self._state.published[ME].copy(),
        )
        self._last_round = number
        self._bridge.publish(number, len(self._state.samples[ME].train), model)

    def _published(self, part: Part) -> Vector:
        published: Vector = self._state.published[ME]
        if part == Part.MODEL:
            return self._state.exchanged.take(published)
        start = self._state.untrained if part == Part.LAST_UPDATE else self._state.initial
        if start is None:
            raise RuntimeError(f"'{part.name}' was requested, but its starting point was not kept.")
        return self._state.exchanged.take(published - start[ME])

    def save(self) -> dict[str, Any]:
        """Return the state to keep between rounds, as plain data."""
        return {**super().save(), "round": self._last_round, **self._bridge.save()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned, and offer the last model again."""
        self._bridge.restore(saved)
        super().restore(saved)
        if saved["round"] >= 0:
            self._publish(saved["round"])


def _compared(metric: Metric, theirs: Vector, mine: Vector) -> float:
    return distance(theirs, mine) if metric == "distance" else cosine(theirs, mine)


def _list_columns(neighbours: npt.NDArray[np.int64] | None) -> dict[str, npt.NDArray[Any]]:
    if neighbours is None:
        return {}
    this_peer = np.zeros(len(neighbours), np.int32)
    others = neighbours.astype(np.int32)
    return {"peer": this_peer, "cluster": this_peer, "other": others, "other_cluster": this_peer}


def _arrival_columns(
    pulled: Mapping[int, PulledModel], weights: Mapping[int, float]
) -> dict[str, npt.NDArray[Any]]:
    if not pulled:
        return {}
    arrived = pulled.values()
    this_peer = np.zeros(len(pulled), np.int32)
    return {
        "peer": this_peer,
        "cluster": this_peer,
        "other": np.array(list(pulled), np.int32),
        "other_round": np.array([each.round for each in arrived], np.int32),
        "age_seconds": np.array([each.age_seconds for each in arrived]),
        "seconds": np.array([each.seconds for each in arrived]),
        "weight": np.array([weights.get(number, math.nan) for number in pulled]),
    }
