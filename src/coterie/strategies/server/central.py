"""Central: one model on pooled data of a cluster or of all peers. Shows the cost of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from coterie.strategies.requests import PeerId
from coterie.strategies.server.server_strategy import (
    Server,
    ServerPlan,
    ServerStrategy,
    TrainPooled,
)
from coterie.strategies.strategy import GroundTruth, require_ground_truth


@dataclass
class Central(ServerStrategy):
    """Train on the pooled data of each true cluster, or of all peers.

    Parameters
    ----------
    scope
        "cluster": one model per true cluster (CentralIIDHalfData in the thesis). "all": one model
        (CentralNonIID).

    Examples
    --------
    >>> from coterie.strategies.strategy import GroundTruth
    >>> truth = GroundTruth(clusters=np.array([0, 1, 0, 1]))
    >>> server = Server(round=1, clients=np.arange(4), rng=np.random.default_rng(0), truth=truth)
    >>> next(Central().round(server))
    TrainPooled(pools={0: (0, 2), 1: (1, 3)})

    References
    ----------
    Onoszko, Karlsson, master's thesis on decentralised federated learning with heterogeneous data,
    2021.
    """

    scope: Literal["cluster", "all"] = "cluster"
    name = "central"
    summary = "one model on the pooled data of each true cluster, or of all peers"
    uses_ground_truth = True

    @property
    def needs_clusters(self) -> bool:
        """Whether there is one model per true cluster, not one for all peers."""
        return self.scope == "cluster"

    def num_models(self, num_clusters: int) -> int:
        """Return one model per cluster, or one for all peers."""
        return num_clusters if self.scope == "cluster" else 1

    def round(self, server: Server) -> ServerPlan:
        """Train each model on the pooled data of its peers."""
        pools: dict[int, list[PeerId]] = {}
        for peer in np.sort(server.clients):
            pools.setdefault(self.model_of(int(peer), server.truth), []).append(int(peer))
        yield TrainPooled({model: tuple(peers) for model, peers in sorted(pools.items())})

    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """Return the model of the peer's true cluster, or the only one."""
        if self.scope == "all":
            return 0
        return int(require_ground_truth(truth).clusters[peer])
