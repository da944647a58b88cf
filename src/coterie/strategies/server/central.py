"""Central: one model on pooled data, of one cluster or of all. What privacy costs."""

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
    """Trains on the pooled data of each true cluster (`scope="cluster"`) or of all peers ("all").

    The thesis calls these CentralIIDHalfData and CentralNonIID.
    """

    scope: Literal["cluster", "all"] = "cluster"
    name = "central"
    summary = "one model on the pooled data of each true cluster, or of everybody"
    uses_ground_truth = True

    def num_models(self, num_clusters: int) -> int:
        """One model for each cluster, or one for all."""
        return num_clusters if self.scope == "cluster" else 1

    def round(self, server: Server) -> ServerPlan:
        """Train each model on the data of its members."""
        pools: dict[int, list[PeerId]] = {}
        for peer in np.sort(server.clients):
            pools.setdefault(self.model_of(int(peer), server.truth), []).append(int(peer))
        yield TrainPooled({model: tuple(peers) for model, peers in sorted(pools.items())})

    def model_of(self, peer: PeerId, truth: GroundTruth | None) -> int:
        """The model of the peer's true cluster, or the only one."""
        if self.scope == "all":
            return 0
        return int(require_ground_truth(truth).clusters[peer])
