"""Runs strategies with a server: answers their requests."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from coterie.data.pools import Samples
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob
from coterie.randomness import generator, key_bits
from coterie.runtime.best_models import Peers
from coterie.runtime.exchange_log import SERVER
from coterie.runtime.model_store import ModelStore
from coterie.runtime.round import Round
from coterie.strategies.server.server_strategy import (
    Aggregate,
    ScoreClients,
    Server,
    ServerRequest,
    ServerStrategy,
    TrainClients,
    TrainPooled,
)
from coterie.strategies.strategy import GroundTruth

Answer: TypeAlias = dict[int, float] | dict[int, list[float]] | None


class ServerRuntime:
    """Runs the rounds of a server; clients train the models that it sends."""

    def __init__(self, state: ModelStore, strategy: ServerStrategy) -> None:
        self._state = state
        self.strategy = strategy
        self._pooled: set[int] = set()
        """Models that were trained on pooled data in this round, with their buffers."""

    def start(self, now: Round) -> None:
        """Run round 0: all clients validate the untrained models."""
        self._finish(now, np.arange(self._state.num_peers))

    def run(self, now: Round) -> None:
        """Run one round."""
        self._pooled.clear()
        plan = self.strategy.round(
            Server(
                round=now.number,
                clients=now.active_peers,
                rng=generator(self._state.settings.seed, "strategy", SERVER, now.number),
                truth=self._truth(now.truth),
            )
        )
        answer: Any = None
        while True:
            try:
                request: ServerRequest = plan.send(answer)
            except StopIteration:
                break
            answer = self._answer(now, request)
        self._finish(now, now.active_peers)

    def record_estimates(self, now: Round) -> None:
        """Record nothing: clients have no estimates of each other."""

    def serve_best(self, peers: Peers) -> None:
        """Publish nothing: a stopped client keeps its best model."""

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds, as plain data."""
        return {"strategies": [self.strategy.save()]}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        self.strategy.restore(saved["strategies"][0])

    def _truth(self, truth: GroundTruth | None) -> GroundTruth | None:
        return truth if self.strategy.uses_ground_truth else None

    def _answer(self, now: Round, request: ServerRequest) -> Answer:
        if isinstance(request, TrainClients):
            return self._train_clients(now, request)
        if isinstance(request, ScoreClients):
            return self._score_clients(now, request)
        if isinstance(request, Aggregate):
            self._aggregate(request)
        else:
            self._train_pooled(now, request)
        return None

    def _train_clients(self, now: Round, request: TrainClients) -> dict[int, float]:
        state, size = self._state, self._state.exchanged.layout.num_bytes
        jobs, clients = [], []
        for client, model in request.models.items():
            if request.already_there or self._download(now, client):
                self._give(client, model)
                clients.append(client)
                jobs.append(
                    TrainJob(
                        ModelReference("current", client),
                        state.samples[client].train,
                        state.settings.training.epochs,
                        key_bits(state.settings.seed, "training", client, now.number, 0),
                    )
                )
        losses = state.trainer.train(jobs)
        state.forget_validation(clients)
        state.record_training_losses(now, dict(zip(clients, losses, strict=True)))
        returned = {}
        for client in clients:
            delivered = state.network.draw_delivery(client)
            now.exchanges.add("upload", SERVER, client, size, delivered)
            if delivered:
                returned[client] = float(len(state.samples[client].train))
        return returned

    def _score_clients(self, now: Round, request: ScoreClients) -> dict[int, list[float]]:
        state = self._state
        models = range(len(state.server))
        # All downloads are made and counted, even if one is lost.
        arrived = {
            client: [self._download(now, client) for _ in models] for client in request.clients
        }
        reached = [client for client in request.clients if all(arrived[client])]
        jobs = [
            EvaluateJob(
                ModelReference("server", model),
                state.samples[client].train,
                buffers=state.local_buffers(client, "current"),
            )
            for client in reached
            for model in models
        ]
        losses = [result.loss for result in state.trainer.evaluate(jobs)]
        return {
            client: losses[place * len(models) : (place + 1) * len(models)]
            for place, client in enumerate(reached)
        }

    def _download(self, now: Round, client: int) -> bool:
        """Send a client one model; return whether it arrived."""
        delivered = self._state.network.draw_delivery(client)
        size = self._state.exchanged.layout.num_bytes
        now.exchanges.add("download", client, SERVER, size, delivered)
        return delivered

    def _aggregate(self, request: Aggregate) -> None:
        target = self._state.server[request.model]
        for part in self._state.exchanged.slices():
            target[part] = 0
            for client, weight in request.weights.items():
                target[part] += np.float32(weight) * self._state.current[client][part]

    def _train_pooled(self, now: Round, request: TrainPooled) -> None:
        state = self._state
        jobs = []
        self._pooled.update(request.pools)
        for model, peers in request.pools.items():
            rows = np.concatenate([state.samples[peer].train.rows() for peer in peers])
            pool = state.samples[peers[0]].train.pool
            jobs.append(
                TrainJob(
                    ModelReference("server", model),
                    Samples(pool, 0, 0, rows),
                    state.settings.training.epochs,
                    key_bits(state.settings.seed, "training", f"model {model}", now.number),
                )
            )
        losses = state.trainer.train(jobs)
        for peers, loss in zip(request.pools.values(), losses, strict=True):
            state.record_training_losses(now, dict.fromkeys(peers, loss))

    def _give(self, client: int, model: int) -> None:
        """Give a client a model of the server; a client with local buffers keeps them."""
        layout, exchanged = self._state.layout, self._state.exchanged
        has_buffers = model in self._pooled
        for part in layout.last_layers(None) if has_buffers else exchanged.slices():
            self._state.current[client][part] = self._state.server[model][part]

    def _finish(self, now: Round, peers: Peers) -> None:
        """Give each peer its server model, and validate it."""
        for peer in peers:
            model = self.strategy.model_of(int(peer), self._truth(now.truth))
            self._give(int(peer), model)
        self._state.forget_validation(peers)
        self._state.validate_trained(now, peers)
