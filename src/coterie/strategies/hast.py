"""HAST: layer-wise merging under temporal shift (Toftås et al. 2023).

Features are worth sharing with anybody, the meaning of labels only with one's own kind: all layers
are merged with random peers, then the classifier alone with similar ones.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from coterie.strategies.options import Share, Temperature
from coterie.strategies.parts.finetuning import train
from coterie.strategies.parts.merging import MergeRule, federated_average, merge_weights
from coterie.strategies.parts.sampling import Chances, Unseen, softmax_chances, uniform
from coterie.strategies.parts.similarity import Similarity, measure, measurements
from coterie.strategies.parts.similarity_table import RANGES, Hops, SimilarityTable
from coterie.strategies.requests import Depth, Fetch, Merge, Message, Metric, Offer, Plan, Request
from coterie.strategies.strategy import Beliefs, Me, Strategy


@dataclass
class HAST(Strategy):
    """Merges everything with n = `fetches` random peers, then the classifier with n similar ones.

    The classifier φ is the last `depth` layers; what is before is the feature extractor θ. With
    `merge="fedsim"` step 2 weighs peers by p_i, from which it drew them; step 1 has no p_i.
    """

    fetches: int = 3
    tau: Temperature = 30.0
    depth: Depth = "classifier"
    finetune: bool = True
    metric: Similarity = "inverse-loss"
    alpha: Share = 1.0
    two_hop: bool = True
    hops: Hops = "two"
    unseen: Unseen = "zero"
    merge: MergeRule = "fedavg"
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)

    table_ranges = RANGES
    name = "hast"
    summary = "merges all layers with random peers, then the classifier with similar ones"

    def round(self, me: Me) -> Plan:
        """Step 1 merges θ and φ, step 2 merges φ, step 3 trains and fine-tunes φ."""
        offers = yield from self._meet(me, uniform(me.rng, me.others, self.fetches))
        yield Merge(federated_average(me, offers))
        chances = self.chances(me)
        offers = yield from self._meet(me, chances.sample(me.rng, self.fetches))
        yield Merge(merge_weights(self.merge, me, offers, chances), last_layers=self.depth)
        yield from train(finetune=self.finetune, depth=self.depth)

    def chances(self, me: Me) -> Chances:
        """p_i = softmax(τ·s_i) over the others, for step 2."""
        similarities = self.table.similarities(me.others)
        return softmax_chances(me.others, similarities, self.tau, self.unseen)

    def _meet(self, me: Me, peers: tuple[int, ...]) -> Generator[Request, Any, list[Offer]]:
        """Fetch, measure, remember; in step 2 too, a measurement is stored like any other.

        All models are those from the start of the round, but my own is as the last step left it.
        """
        offers: list[Offer] = yield Fetch(peers)
        scores = yield from measure(offers, self.metric, self.alpha)
        self.table.measured(scores)
        if self.two_hop:
            self.table.heard(me, offers, scores)
        return offers

    def message(self) -> Message:
        """Pass my table on with my model."""
        return self.table.message(self.hops)

    def beliefs(self, me: Me) -> Beliefs:
        """Return my table, with p_i of step 2."""
        return self.table.beliefs(self.chances(me))

    def needs(self) -> frozenset[Metric]:
        """Return what I will measure."""
        return measurements(self.metric, self.alpha)
