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
from coterie.strategies.parts.sampling import (
    SamplingProbabilities,
    Unseen,
    sample_uniformly,
    softmax_probabilities,
)
from coterie.strategies.parts.similarity import Similarity, measure_similarities, metrics_for
from coterie.strategies.parts.similarity_table import RANGES, Hops, SimilarityTable
from coterie.strategies.requests import Depth, Fetch, Merge, Message, Metric, Offer, Plan, Request
from coterie.strategies.strategy import Estimates, Me, Strategy


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
        offers = yield from self._fetch_and_score(
            me, sample_uniformly(me.rng, me.others, self.fetches)
        )
        yield Merge(federated_average(me, offers))
        chances = self.sampling_probabilities(me)
        offers = yield from self._fetch_and_score(me, chances.sample(me.rng, self.fetches))
        yield Merge(merge_weights(self.merge, me, offers, chances), last_layers=self.depth)
        yield from train(finetune=self.finetune, depth=self.depth)

    def sampling_probabilities(self, me: Me) -> SamplingProbabilities:
        """p_i = softmax(τ·s_i) over the others, for step 2."""
        similarities = self.table.similarities(me.others)
        return softmax_probabilities(me.others, similarities, self.tau, self.unseen)

    def _fetch_and_score(
        self, me: Me, peers: tuple[int, ...]
    ) -> Generator[Request, Any, list[Offer]]:
        """Fetch, measure, remember; in step 2 too, a measurement is stored like any other.

        All models are those from the start of the round, but my own is as the last step left it.
        """
        offers: list[Offer] = yield Fetch(peers)
        scores = yield from measure_similarities(offers, self.metric, self.alpha)
        self.table.record_scores(scores)
        if self.two_hop:
            self.table.record_two_hop_estimates(me, offers, scores)
        return offers

    def message(self) -> Message:
        """Pass my table on with my model."""
        return self.table.message(self.hops)

    def estimates(self, me: Me) -> Estimates:
        """Return my table, with p_i of step 2."""
        return self.table.estimates(self.sampling_probabilities(me))

    def required_metrics(self) -> frozenset[Metric]:
        """Return what I will measure."""
        return metrics_for(self.metric, self.alpha)
