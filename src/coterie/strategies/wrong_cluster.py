"""Deluded: mistakes everybody else's kind for its own. What a peer does that ruins its cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Train
from coterie.strategies.strategy import Me, Strategy, require_ground_truth


@dataclass
class WrongCluster(Strategy):
    """Merges with m = `fetches` uniformly chosen peers of all true clusters but its own."""

    fetches: int = 5
    name = "deluded"
    summary = "merges with peers of all true clusters but its own"
    uses_ground_truth = True

    def round(self, me: Me) -> Plan:
        """Fetch outside of the true cluster, average, train."""
        clusters = require_ground_truth(me.truth).clusters
        outsiders = np.flatnonzero(clusters != clusters[me.peer])
        offers = yield Fetch(sample_uniformly(me.rng, outsiders, self.fetches))
        yield Merge(federated_average(me, offers))
        yield Train()
