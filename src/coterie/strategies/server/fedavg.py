"""FedAvg: one global model, averaged by a server (McMahan et al.; thesis 002, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import PeerId
from coterie.strategies.server.server_strategy import (
    Aggregate,
    Server,
    ServerPlan,
    ServerStrategy,
    TrainClients,
)
from coterie.strategies.strategy import GroundTruth


@dataclass
class FedAvg(ServerStrategy):
    """Trains the global model on m = `fetches` sampled clients and averages by n_k."""

    fetches: int = 5
    name = "fedavg"
    summary = "server: m sampled clients train the global model, averaged by sample counts"

    def num_models(self, num_clusters: int) -> int:
        """One global model."""
        return 1

    def round(self, server: Server) -> ServerPlan:
        """Sample m clients, train there, average: w ← Σ (n_k / Σ n) w_k."""
        clients = sample_uniformly(server.rng, server.clients, self.fetches)
        samples = yield TrainClients(dict.fromkeys(clients, 0))
        if samples:
            yield Aggregate(0, normalise(samples))

    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """Everybody uses the global model."""
        return 0
