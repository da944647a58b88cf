"""WrongCluster: merges with every cluster but its own, as a peer that ruins its cluster would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Train
from coterie.strategies.strategy import Me, Strategy, require_ground_truth


@dataclass
class WrongCluster(Strategy):
    """Merge with m uniformly sampled peers of all true clusters but the peer's own.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import GroundTruth, Me
    >>> truth = GroundTruth(clusters=np.array([0, 1, 0, 1]))
    >>> me = Me(0, 1, np.arange(4), num_samples=10, rng=np.random.default_rng(0), truth=truth)
    >>> sorted(next(WrongCluster(fetches=2).round(me)).peers)
    [1, 3]

    References
    ----------
    Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of
    decentralized deep learning strategies", master's thesis, Lund University, 2024. Section 4.2.
    """

    fetches: int = 5

    name = "deluded"
    summary = "merges with peers of all true clusters but its own"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Sample outside of the true cluster, fetch, average, train."""
        clusters = require_ground_truth(me.truth).clusters
        outsiders = np.flatnonzero(clusters != clusters[me.peer])
        offers = yield Fetch(sample_uniformly(me.rng, outsiders, self.fetches))
        yield Merge(federated_average(me, offers))
        yield Train()
