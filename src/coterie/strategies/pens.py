"""PENS: performance-based neighbour selection.

Step 1 finds neighbours: the peers that greedy selection picks more often than chance. Step 2 is
Random among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coterie.strategies.greedy import check_samples, most_similar, score_peers
from coterie.strategies.options import Share
from coterie.strategies.parts.fetching import fetch_missing
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.peer_counts import PeerCounts
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.parts.similarity import MEASURED_ON_DATA, Similarity, metrics_for
from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Train
from coterie.strategies.strategy import Estimates, Me, Peers, Strategy


@dataclass
class PENS(Strategy):
    """Select greedily for R1 rounds, then merge with the peers selected more often than chance.

    Parameters
    ----------
    fetches
        Number of peers selected in each sampling of step 1 (m_selected).
    samples
        Number of peers asked in each sampling (m_sample).
    samplings
        Number of samplings per round of step 1 (n_samplings); the last selection is merged.
    exploration_rounds
        Number of rounds of step 1 (R1).
    exploration_epochs
        Local epochs in step 1.
    later_fetches
        Number of neighbours merged per round of step 2 (m).
    metric
        The similarity to rank by: "accuracy" in the thesis, "inverse-loss" as the baseline of DAC.
    alpha
        α of the metric "cosine-gradients".

    Examples
    --------
    Peer 2 is selected in 1 of 1 samplings. By chance each of 3 peers would be in 1/3 of them.

    >>> import numpy as np
    >>> from coterie.strategies import Me
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> pens = PENS(fetches=1, samples=3, samplings=1, later_fetches=1)
    >>> plan = pens.round(me)
    >>> next(plan)
    AskScore(peers=(3, 1, 2), metric='accuracy')
    >>> plan.send({3: 0.2, 1: 0.4, 2: 0.9})
    Fetch(peers=(2,))
    >>> pens.neighbours()
    array([2])

    References
    ----------
    Onoszko, Karlsson, master's thesis on decentralised federated learning with heterogeneous data,
    2021.

    Onoszko, Karlsson, Mogren, Listo Zec, "Decentralized federated learning of deep neural networks
    on non-iid data", 2021.
    """

    fetches: int = 4
    samples: int = 20
    samplings: int = 10
    exploration_rounds: int = 20
    exploration_epochs: int = 10
    later_fetches: int = 20
    metric: Similarity = "accuracy"
    alpha: Share = 1.0
    num_selected: PeerCounts = field(default_factory=PeerCounts, init=False)
    """How often each peer was selected: the history."""
    num_sampled: PeerCounts = field(default_factory=PeerCounts, init=False)
    """How often each peer was sampled."""

    name = "pens"
    summary = "merges with neighbours: peers that greedy selection picks more often than chance"

    def round(self, me: Me) -> Plan:
        """Step 1 for R1 rounds, then step 2; models are not reset in between."""
        if me.round <= self.exploration_rounds:
            yield from self._find_neighbours(me)
        else:
            offers = yield Fetch(self._sample_neighbours(me))
            yield Merge(federated_average(me, offers))
            yield Train()

    def _find_neighbours(self, me: Me) -> Plan:
        """Step 1: select n_samplings times, count all selections, merge the last one."""
        selected: tuple[int, ...] = ()
        held: list[Offer] = []
        for _ in range(self.samplings):
            sampled = sample_others(me, self.samples)
            scores, fetched = yield from score_peers(sampled, self.metric, self.alpha)
            held += fetched
            selected = most_similar(scores, self.fetches)
            self.num_sampled.add(tuple(scores))
            self.num_selected.add(selected)
        offers = yield from fetch_missing(selected, held)
        yield Merge(federated_average(me, offers))
        yield Train(epochs=self.exploration_epochs)

    def _sample_neighbours(self, me: Me) -> tuple[int, ...]:
        """Step 2: draw among the neighbours; among all others if there are none."""
        neighbours = self.neighbours()
        if len(neighbours):
            return sample_uniformly(me.rng, neighbours, self.later_fetches)
        return sample_others(me, self.later_fetches)

    def neighbours(self) -> Peers:
        """Return the peers selected more often than chance: count > |history| / |sampled|."""
        counts = self.num_selected.counts
        expected = int(counts.sum()) / max(len(self.num_sampled.peers), 1)
        return self.num_selected.peers[counts > expected]

    def estimates(self, me: Me) -> Estimates:
        """Return the share of its samplings in which each peer was selected."""
        neighbours = self.neighbours()
        is_exploring = me.round <= self.exploration_rounds or not len(neighbours)
        drawn = me.num_others if is_exploring else np.count_nonzero(me.is_other(neighbours))
        peers = self.num_sampled.peers[me.is_other(self.num_sampled.peers)]
        is_drawn = is_exploring | np.isin(peers, neighbours)
        return Estimates(
            peers,
            self.num_selected.of(peers) / self.num_sampled.of(peers),
            np.ones(len(peers), dtype=bool),
            np.where(is_drawn, np.exp(-np.log(max(drawn, 1))), 0.0),
        )

    def asks_for_scores(self) -> bool:
        """Return whether the own model is scored on other peers' data."""
        return self.metric in MEASURED_ON_DATA

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics of the similarity."""
        return metrics_for(self.metric, self.alpha)

    def check(self, num_peers: int) -> None:
        """Refuse more samples than there are others, and more selected than sampled."""
        super().check(num_peers)
        check_samples(self.samples, self.fetches, num_peers)
