"""FedAvg: federated averaging, one global model that a server averages."""

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
    """Train the global model on m sampled clients and average by number of samples.

    Parameters
    ----------
    fetches
        Number of clients sampled per round (m).

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies.server.server_strategy import Server
    >>> server = Server(round=1, clients=np.arange(4), rng=np.random.default_rng(0))
    >>> plan = FedAvg(fetches=2).round(server)
    >>> sorted(next(plan).models)
    [2, 3]
    >>> plan.send({2: 10, 3: 30})
    Aggregate(model=0, weights={2: 0.25, 3: 0.75})

    References
    ----------
    McMahan et al., "Communication-efficient learning of deep networks from decentralized data",
    2017.

    Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of
    decentralized deep learning strategies", master's thesis, Lund University, 2024.
    Algorithm 1.
    """

    fetches: int = 5
    name = "fedavg"
    summary = "server: m sampled clients train the global model, averaged by number of samples"

    def num_models(self, num_clusters: int) -> int:
        """Return 1: the global model."""
        return 1

    def round(self, server: Server) -> ServerPlan:
        """Sample m clients, train there, average: w ← Σ (n_k / Σn) w_k."""
        clients = sample_uniformly(server.rng, server.clients, self.fetches)
        samples = yield TrainClients(dict.fromkeys(clients, 0))
        if samples:
            yield Aggregate(0, normalise(samples))

    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """Return 0: the global model."""
        return 0
