"""PANM: neighbour matching without a server (thesis 002, appendix B).

Stage 1 (NSMC) keeps the k most similar of those it has met; they are surely of one's kind, but
few. Stage 2 (NAEM) sorts a growing bag of neighbours and strangers into two kinds.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.strategies.options import Count, Share, Temperature
from coterie.strategies.parts.fetching import fetch_missing
from coterie.strategies.parts.merging import MergeRule, merge_weights
from coterie.strategies.parts.mixture import find_similar
from coterie.strategies.parts.sampling import (
    sample_uniformly,
    softmax_probabilities,
    uniform_probabilities,
)
from coterie.strategies.parts.similarity import (
    Similarity,
    SimilarityPlan,
    measure_similarities,
    metrics_for,
)
from coterie.strategies.parts.similarity_table import SimilarityTable
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Request, Train
from coterie.strategies.strategy import Estimates, Me, Strategy

Peers = npt.NDArray[np.int64]
Fetching = Generator[Request, Any, list[Offer]]


@dataclass
class PANM(Strategy):
    """Keeps the best k = `fetches` for T1 = `confident_rounds`, then k random ones of a bag B.

    The bag is sorted anew every `em_every` rounds. Members that were not scored then were neither
    confirmed nor refuted and stay; `bag="found"` drops them, as the thesis prints it.
    """

    fetches: int = 5
    candidates: Count = 5
    confident_rounds: int = 50
    em_every: Count = 2
    metric: Similarity = "inverse-loss"
    alpha: Share = 1.0
    merge: MergeRule = "fedavg"
    tau: Temperature = 5.0
    """For FedSim only: p_i = softmax(τ·s_i) over those merged, by what I measured last."""
    bag: Literal["kept", "found"] = "kept"
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)
    members: Peers = field(default_factory=lambda: np.zeros(0, np.int64), init=False)
    """The neighbour list N in stage 1, the bag B in stage 2."""

    name = "panm"
    summary = "keeps the most similar peers met, then sorts peers into two kinds by EM"

    def round(self, me: Me) -> Plan:
        """NSMC for T1 rounds, then NAEM now and then; merge with k neighbours, train.

        An empty bag gives EM nothing to start from, so NSMC fills it first.
        """
        self.members = np.intersect1d(self.members, me.others)
        if me.round <= self.confident_rounds or not len(self.members):
            offers = yield from self._select_neighbours(me)
        else:
            offers = yield from self._sample_bag(me)
        peers = np.array([offer.peer for offer in offers], np.int64)
        chances = softmax_probabilities(peers, self.table.similarities(peers), self.tau)
        yield Merge(merge_weights(self.merge, me, offers, chances))
        yield Train()

    def _select_neighbours(self, me: Me) -> Fetching:
        """NSMC: N ← the k most similar of N and l strangers; who is silent keeps its old score."""
        offers = yield Fetch((*self.members.tolist(), *self._sample_candidates(me)))
        scores = yield from self._measure(offers)
        met = np.union1d(self.members, np.array(list(scores), np.int64))
        order = np.argsort(-self.table.similarities(met), kind="stable")
        self.members = np.sort(met[order[: self.fetches]])
        return [offer for offer in offers if offer.peer in self.members]

    def _sample_bag(self, me: Me) -> Fetching:
        """Stage 2: sort the bag if it is time to, then fetch k random ones of it."""
        held: list[Offer] = []
        if (me.round - self.confident_rounds) % self.em_every == 0:
            held = yield from self._update_bag(me)
        chosen = sample_uniformly(me.rng, self.members, self.fetches)
        return (yield from fetch_missing(chosen, held))

    def _update_bag(self, me: Me) -> Fetching:
        """NAEM: EM on the scores of S ⊂ B and strangers C; B ← (B \\ S) ∪ found, or found alone."""
        asked = sample_uniformly(me.rng, self.members, self.fetches)
        offers = yield Fetch((*asked, *self._sample_candidates(me)))
        scores = yield from self._measure(offers)
        scored = np.array(sorted(scores), np.int64)
        believed = np.isin(scored, asked)
        if believed.any():  # otherwise there is nobody whom strangers could resemble
            values = np.array([scores[peer] for peer in scored.tolist()])
            found = scored[find_similar(values, believed)]
            unscored = np.setdiff1d(self.members, scored)
            self.members = np.union1d(unscored, found) if self.bag == "kept" else found
        return list(offers)

    def _sample_candidates(self, me: Me) -> tuple[int, ...]:
        """Draw l = `candidates` random peers that are not among my neighbours."""
        return sample_uniformly(me.rng, np.setdiff1d(me.others, self.members), self.candidates)

    def _measure(self, offers: list[Offer]) -> SimilarityPlan:
        scores = yield from measure_similarities(offers, self.metric, self.alpha)
        self.table.record_scores(scores)
        return scores

    def neighbours(self) -> Peers:
        """Return N, or B in stage 2."""
        return self.members

    def estimates(self, me: Me) -> Estimates:
        """Return what I measured last; my neighbours are equally likely, nobody else is."""
        return self.table.estimates(uniform_probabilities(me.others, self.members))

    def required_metrics(self) -> frozenset[Metric]:
        """Return what I will measure."""
        return metrics_for(self.metric, self.alpha)
