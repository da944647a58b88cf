"""DelusionalOracle: Oracle with a few peers that select the wrong cluster from some round on.

It is the experiment on cluster death: how many wrong choices ruin a cluster?
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
    """Oracle, but x peers of one cluster sample only from the other clusters from a round on.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).
    delusional
        Number of peers that select the wrong cluster (x): the first ones of the cluster.
    cluster
        The number of their true cluster.
    from_round
        The first round in which they do so.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import GroundTruth, Me
    >>> truth = GroundTruth(clusters=np.array([0, 1, 0, 1]))
    >>> me = Me(0, 50, np.arange(4), num_samples=10, rng=np.random.default_rng(0), truth=truth)
    >>> next(DelusionalOracle(fetches=1, delusional=1).round(me)).peers
    (3,)

    References
    ----------
    Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of
    decentralized deep learning strategies", master's thesis, Lund University, 2024. Section 4.2.
    """

    fetches: int = 5
    delusional: int = 5
    cluster: int = 0
    from_round: int = 50

    name = "delusional-oracle"
    summary = "Oracle, but x peers of one cluster sample from the others from a round on"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Follow Oracle, or WrongCluster."""
        strategy = WrongCluster if self.is_delusional(me) else Oracle
        return strategy(self.fetches).round(me)

    def is_delusional(self, me: Me) -> bool:
        """Whether the peer is one of the first x of the cluster, in `from_round` or later."""
        members = np.flatnonzero(require_ground_truth(me.truth).clusters == self.cluster)
        return me.round >= self.from_round and me.peer in members[: self.delusional]
