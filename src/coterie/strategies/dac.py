"""DAC: decentralised adaptive clustering.

A peer scores the models it fetches by their loss on its own data. It samples peers from a softmax
over these similarities, so peers with similar data exchange models more often and form a soft
cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from coterie.strategies.options import Share, Temperature
from coterie.strategies.parts.finetuning import train
from coterie.strategies.parts.merging import MergeRule, merge_weights
from coterie.strategies.parts.sampling import SamplingProbabilities, Unseen, softmax_probabilities
from coterie.strategies.parts.similarity import (
    MEASURED_ON_DATA,
    Similarity,
    SimilarityPlan,
    measure_similarities,
    metrics_for,
    request_similarities,
)
from coterie.strategies.parts.similarity_table import RANGES, Hops, SimilarityTable, Values
from coterie.strategies.parts.unlisted_peers import divide_others
from coterie.strategies.requests import Depth, Fetch, Merge, Message, Metric, Offer, Plan
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class DAC(Strategy):
    """Sample m peers from softmax(τ·s_i), with two-hop estimates for peers never met.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).
    tau
        Temperature of the softmax (τ), in units of 1/similarity; 0 samples uniformly.
    temperature
        "constant", or "growing" for DAC-var: τ(t) = 1 + (τ − 1)(2σ(0.2t) − 1), where σ is the
        logistic function.
    rescale
        DAC min-max: known similarities are rescaled to [0, 1].
    metric
        The similarity s_i(k); "inverse-loss" is 1/ℓ.
    alpha
        α of the metric "cosine-gradients".
    measured_by
        "me": their model on the own data, as in all published code. "them": the own model on their
        data, as in the paper's text.
    two_hop
        Whether to estimate ŝ_i(j) from the tables of fetched peers; False is the ablation "− ŝ".
    hops
        "two" passes on measurements only; "any" passes on estimates too.
    unseen
        Peers of unknown similarity: "zero" gives them s = 0 in the softmax; "epsilon" leaves them
        out, then adds 1e-6 to all probabilities.
    merge
        "fedavg" or "fedsim".
    finetune, depth
        Whether to fine-tune the last `depth` layers after training, as in step 3 of HAST.

    Examples
    --------
    A round of peer 0 that samples one peer, measures the loss 0.5 and remembers s_0(3) = 2.

    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> dac = DAC(fetches=1)
    >>> plan = dac.round(me)
    >>> next(plan)
    Fetch(peers=(3,))
    >>> plan.send([Offer(3, num_samples=10, message={})])
    Score(offers=(Offer(peer=3, num_samples=10, message={}),), metric='loss')
    >>> plan.send({3: 0.5})
    Merge(weights={0: 0.5, 3: 0.5}, last_layers=None)
    >>> dac.table.similarities(me.others)
    array([nan, nan,  2.])
    >>> np.exp(dac.sampling_probabilities(me).log_probabilities).round(3)
    array([0., 0., 1.])

    References
    ----------
    Listo Zec, Ekblom, Willbo, Mogren, Girdzijauskas, "Decentralized adaptive clustering of deep
    nets is beneficial for client collaboration", 2022. Section 3.

    Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of
    decentralized deep learning strategies", master's thesis, Lund University, 2024.
    Section 2.4.2 and equation 2.12 (FedSim).
    """

    fetches: int = 5
    tau: Temperature = 30.0
    temperature: Literal["constant", "growing"] = "constant"
    rescale: bool = False
    metric: Similarity = "inverse-loss"
    alpha: Share = 1.0
    measured_by: Literal["me", "them"] = "me"
    two_hop: bool = True
    hops: Hops = "two"
    unseen: Unseen = "zero"
    merge: MergeRule = "fedavg"
    finetune: bool = False
    depth: Depth = "classifier"
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)

    table_ranges = RANGES
    name = "dac"
    summary = "samples peers by a softmax over similarities, with two-hop estimates"

    def round(self, me: Me) -> Plan:
        """Sample from p_i, fetch models and tables, measure, estimate, merge, train."""
        probabilities = self.sampling_probabilities(me)
        offers = yield Fetch(probabilities.sample(me.rng, self.fetches))
        scores = yield from self._measure(offers)
        self.table.record_scores(scores)
        if self.two_hop:
            self.table.record_two_hop_estimates(me, offers, scores)
        yield Merge(merge_weights(self.merge, me, offers, probabilities))
        yield from train(finetune=self.finetune, depth=self.depth)

    def sampling_probabilities(self, me: Me) -> SamplingProbabilities:
        """Return p_i = softmax(τ(t)·s_i) over the other peers."""
        peers, rest = divide_others(me, self.table.peers)
        similarities = self.table.similarities(peers)
        if self.rescale:
            similarities = min_max(similarities)
        return softmax_probabilities(peers, similarities, self.tau_at(me.round), self.unseen, rest)

    def tau_at(self, round_number: int) -> float:
        """Return τ(t) = 1 + (τ − 1)(2σ(0.2t) − 1) for DAC-var, else τ."""
        if self.temperature == "constant":
            return self.tau
        return 1 + (self.tau - 1) * (2 / (1 + math.exp(-0.2 * round_number)) - 1)

    def message(self) -> Message:
        """Return the similarity table, to travel with the model."""
        return self.table.message(self.hops)

    def estimates(self, me: Me) -> Estimates:
        """Return the similarity table, with p_i."""
        return self.table.estimates(self.sampling_probabilities(me))

    def asks_for_scores(self) -> bool:
        """Return whether the own model is scored on other peers' data."""
        return self.measured_by == "them" and self.metric in MEASURED_ON_DATA

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics of the similarity."""
        return metrics_for(self.metric, self.alpha)

    def _measure(self, offers: list[Offer]) -> SimilarityPlan:
        """Measure s_i(k); only similarities on data differ between the two directions."""
        if self.asks_for_scores():
            peers = tuple(offer.peer for offer in offers)
            return (yield from request_similarities(peers, self.metric))
        return (yield from measure_similarities(offers, self.metric, self.alpha))


def min_max(similarities: Values) -> Values:
    """Rescale known similarities to [0, 1] (DAC min-max); equal ones all become 0.

    Parameters
    ----------
    similarities
        s_i, (n,); NaN where unknown.

    Examples
    --------
    >>> min_max(np.array([1.0, np.nan, 5.0, 3.0]))
    array([0. , nan, 1. , 0.5])
    """
    known = similarities[~np.isnan(similarities)]
    if len(known) == 0 or known.max() == known.min():
        return np.where(np.isnan(similarities), similarities, 0.0)
    return np.asarray((similarities - known.min()) / (known.max() - known.min()))
