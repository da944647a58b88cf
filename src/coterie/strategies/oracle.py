"""Oracle: Random within the peer's true cluster. The result of perfect peer selection."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.kin.average_or_adopt import average_or_adopt
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Train, Validate
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Oracle(Strategy):
    """Merge with m uniformly sampled peers of the true cluster; a yardstick, not an algorithm.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).
    adopt
        Whether to merge by "average or adopt", as Kin does, instead of by FedAvg.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import GroundTruth, Me
    >>> truth = GroundTruth(clusters=np.array([0, 1, 0, 1]))
    >>> me = Me(0, 1, np.arange(4), num_samples=10, rng=np.random.default_rng(0), truth=truth)
    >>> next(Oracle(fetches=2).round(me))
    Fetch(peers=(2,))

    References
    ----------
    Listo Zec et al., "Decentralized adaptive clustering of deep nets is beneficial for client
    collaboration", 2022. The Oracle baseline.
    """

    fetches: int = 5
    adopt: bool = False

    name = "oracle"
    summary = "Random restricted to the peer's true cluster"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Sample within the true cluster, fetch, merge, train."""
        offers = yield Fetch(sample_uniformly(me.rng, me.true_cluster, self.fetches))
        if self.adopt:
            mine = (yield Validate((me.peer,)))[me.peer]
            theirs = yield Validate(tuple(offer.peer for offer in offers))
            weights = yield from average_or_adopt(me, mine, theirs, dict.fromkeys(theirs, 1.0))
        else:
            weights = federated_average(me, offers)
        yield Merge(weights)
        yield Train()
