"""DAC: decentralised adaptive clustering (Listo Zec et al. 2022; thesis 002, section 2.4.2).

Peers whose models do well on my data are probably of my kind, and so are those they find similar:
each peer samples its partners from a softmax over similarities and so forms a soft cluster.
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
from coterie.strategies.requests import Depth, Fetch, Merge, Message, Metric, Offer, Plan
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class DAC(Strategy):
    """Samples m = `fetches` peers from softmax(τ·s_i), s_i measured or heard of at second hand.

    `temperature="growing"` is DAC-var, `rescale=True` is DAC min-max, `two_hop=False` the paper's
    "− ŝ" ablation. `measured_by="them"` is the direction of the paper's text (my model on their
    data); all published code, and the default, is their model on mine. `finetune` is HAST's.
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
    summary = "samples peers by softmax of similarity, with two-hop estimates"

    def round(self, me: Me) -> Plan:
        """Sample from p_i, fetch models and tables, measure, estimate, merge, train."""
        chances = self.sampling_probabilities(me)
        offers = yield Fetch(chances.sample(me.rng, self.fetches))
        scores = yield from self._measure(offers)
        self.table.record_scores(scores)
        if self.two_hop:
            self.table.record_two_hop_estimates(me, offers, scores)
        yield Merge(merge_weights(self.merge, me, offers, chances))
        yield from train(finetune=self.finetune, depth=self.depth)

    def sampling_probabilities(self, me: Me) -> SamplingProbabilities:
        """p_i = softmax(τ(t)·s_i) over the others."""
        similarities = self.table.similarities(me.others)
        if self.rescale:
            similarities = min_max(similarities)
        return softmax_probabilities(me.others, similarities, self.tau_at(me.round), self.unseen)

    def tau_at(self, round_number: int) -> float:
        """DAC-var: τ(t) = 1 + (τ_max − 1)(2σ(0.2 t) − 1), from 1 at t = 0; constant otherwise."""
        if self.temperature == "constant":
            return self.tau
        return 1 + (self.tau - 1) * (2 / (1 + math.exp(-0.2 * round_number)) - 1)

    def message(self) -> Message:
        """Pass my table on with my model."""
        return self.table.message(self.hops)

    def estimates(self, me: Me) -> Estimates:
        """Return my table, with p_i."""
        return self.table.estimates(self.sampling_probabilities(me))

    def asks_for_scores(self) -> bool:
        """Return whether my model is measured on their data."""
        return self.measured_by == "them" and self.metric in MEASURED_ON_DATA

    def required_metrics(self) -> frozenset[Metric]:
        """Return what I will measure."""
        return metrics_for(self.metric, self.alpha)

    def _measure(self, offers: list[Offer]) -> SimilarityPlan:
        """Measure s_i(k); weights compare alike from both sides, so only data have a direction."""
        if self.measured_by == "them" and self.metric in MEASURED_ON_DATA:
            return (
                yield from request_similarities(tuple(offer.peer for offer in offers), self.metric)
            )
        return (yield from measure_similarities(offers, self.metric, self.alpha))


def min_max(similarities: Values) -> Values:
    """Rescale known similarities to [0, 1] (DAC min-max); equal ones stay equal, never NaN."""
    known = similarities[~np.isnan(similarities)]
    if len(known) == 0 or known.max() == known.min():
        return np.where(np.isnan(similarities), similarities, 0.0)
    return np.asarray((similarities - known.min()) / (known.max() - known.min()))
