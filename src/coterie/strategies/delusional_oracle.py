"""DelusionalOracle: Oracle with a few peers that from some round on mistake their cluster.

The experiment on cluster death (thesis 002, section 4.2): how many wrong choices ruin a cluster?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.strategies.oracle import Oracle
from coterie.strategies.requests import Plan
from coterie.strategies.strategy import Me, Strategy, require_ground_truth
from coterie.strategies.wrong_cluster import WrongCluster


@dataclass
class DelusionalOracle(Strategy):
    """Oracle, but `delusional` peers of one cluster sample only from the others from a round on."""

    fetches: int = 5
    delusional: int = 5
    cluster: int = 0
    from_round: int = 50
    name = "delusional-oracle"
    summary = "Oracle with x peers of one cluster that sample from the others from a round on"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Do what Oracle does, or the opposite when deluded."""
        kind = WrongCluster if self.is_deluded(me) else Oracle
        return kind(self.fetches).round(me)

    def is_deluded(self, me: Me) -> bool:
        """Whether I am one of the first x peers of the cluster and the time has come."""
        members = np.flatnonzero(require_ground_truth(me.truth).clusters == self.cluster)
        return me.round >= self.from_round and me.peer in members[: self.delusional]
