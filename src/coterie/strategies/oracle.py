"""Oracle: Random restricted to the peer's true cluster. What perfect judgement would reach."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.merging import federated_average
from coterie.sampling import uniform
from coterie.strategies.base import Fetch, Me, Merge, Plan, Strategy, Train


@dataclass
class Oracle(Strategy):
    """Merges with m = `fetches` uniformly chosen peers of its own true cluster."""

    fetches: int = 5
    name = "oracle"
    summary = "Random restricted to the peer's true cluster"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Fetch within the true cluster of this very peer, average, train."""
        offers = yield Fetch(uniform(me.rng, me.true_cluster, self.fetches))
        yield Merge(federated_average(me, offers))
        yield Train()
