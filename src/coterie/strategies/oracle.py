"""Oracle: Random restricted to the peer's true cluster. What perfect judgement would reach."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.kin.average_or_adopt import average_or_adopt
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Train, Validate
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Oracle(Strategy):
    """Merges with m = `fetches` uniformly chosen peers of its own true cluster.

    With `adopt` it merges them as Kin does, "average or adopt", instead of by FedAvg.
    """

    fetches: int = 5
    adopt: bool = False
    name = "oracle"
    summary = "Random restricted to the peer's true cluster"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Fetch within the true cluster of this very peer, average, train."""
        offers = yield Fetch(sample_uniformly(me.rng, me.true_cluster, self.fetches))
        if self.adopt:
            mine = (yield Validate((me.peer,)))[me.peer]
            theirs = yield Validate(tuple(offer.peer for offer in offers))
            weights = yield from average_or_adopt(me, mine, theirs, dict.fromkeys(theirs, 1.0))
        else:
            weights = federated_average(me, offers)
        yield Merge(weights)
        yield Train()
