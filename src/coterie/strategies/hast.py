"""HAST: layer-wise merging under temporal shift.

Feature extractors are useful to all peers, classifiers only to peers with similar data. All layers
are merged with random peers, then the classifier alone with similar peers.
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
    softmax_probabilities,
)
from coterie.strategies.parts.similarity import Similarity, measure_similarities, metrics_for
from coterie.strategies.parts.similarity_table import RANGES, Hops, SimilarityTable
from coterie.strategies.parts.unlisted_peers import divide_others, sample_others
from coterie.strategies.requests import Depth, Fetch, Merge, Message, Metric, Offer, Plan, Request
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class HAST(Strategy):
    """Merge all layers with n random peers, then only the classifier with n similar peers.

    Parameters
    ----------
    fetches
        Number of peers in each of the two steps (n).
    tau
        Temperature of the softmax of step 2 (τ), in units of 1/similarity.
    depth
        The classifier φ: how many of the last layers step 2 merges and step 3 fine-tunes (d). The
        layers before are the feature extractor θ.
    finetune
        Whether step 3 fine-tunes φ after training.
    metric
        The similarity s_i(k); "inverse-loss" is 1/ℓ.
    alpha
        α of the metric "cosine-gradients".
    two_hop, hops, unseen
        Two-hop estimates and peers of unknown similarity, as in DAC.
    merge
        "fedavg", or "fedsim" to weight step 2 by p_i. Step 1 has no p_i.

    Examples
    --------
    Step 1 merges all layers (`last_layers=None`), step 2 only the classifier.

    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> plan = HAST(fetches=1).round(me)
    >>> next(plan)
    Fetch(peers=(3,))
    >>> score = plan.send([Offer(3, num_samples=10, message={})])
    >>> plan.send({3: 0.5})
    Merge(weights={0: 0.5, 3: 0.5}, last_layers=None)
    >>> plan.send(None)
    Fetch(peers=(3,))
    >>> score = plan.send([Offer(3, num_samples=10, message={})])
    >>> plan.send({3: 0.5})
    Merge(weights={0: 0.5, 3: 0.5}, last_layers='classifier')

    References
    ----------
    Toftås, Klefbom, Listo Zec, Willbo, Mogren, "Concept-aware clustering for decentralized deep
    learning under temporal shift", ICML 2023 workshop on federated learning and analytics in
    practice. Section 3.1.
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
        """Step 1 merges θ and φ, step 2 merges φ, step 3 trains both and fine-tunes φ."""
        peers = sample_others(me, self.fetches)
        offers = yield from self._fetch_and_score(me, peers)
        yield Merge(federated_average(me, offers))
        probabilities = self.sampling_probabilities(me)
        offers = yield from self._fetch_and_score(me, probabilities.sample(me.rng, self.fetches))
        yield Merge(merge_weights(self.merge, me, offers, probabilities), last_layers=self.depth)
        yield from train(finetune=self.finetune, depth=self.depth)

    def sampling_probabilities(self, me: Me) -> SamplingProbabilities:
        """Return p_i = softmax(τ·s_i) over the other peers, for step 2."""
        peers, rest = divide_others(me, self.table.peers)
        similarities = self.table.similarities(peers)
        return softmax_probabilities(peers, similarities, self.tau, self.unseen, rest)

    def _fetch_and_score(
        self, me: Me, peers: tuple[int, ...]
    ) -> Generator[Request, Any, list[Offer]]:
        """Fetch, measure similarities and record them, in step 2 as in step 1.

        Fetched models are those from the start of the round, in both steps.
        """
        offers: list[Offer] = yield Fetch(peers)
        scores = yield from measure_similarities(offers, self.metric, self.alpha)
        self.table.record_scores(scores)
        if self.two_hop:
            self.table.record_two_hop_estimates(me, offers, scores)
        return offers

    def message(self) -> Message:
        """Return the similarity table, to travel with the model."""
        return self.table.message(self.hops)

    def estimates(self, me: Me) -> Estimates:
        """Return the similarity table, with p_i of step 2."""
        return self.table.estimates(self.sampling_probabilities(me))

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics of the similarity."""
        return metrics_for(self.metric, self.alpha)
