"""PANM: personalised adaptive neighbour matching.

Stage 1 (NSMC, Monte Carlo) keeps the k most similar peers it has met: few, but confident
neighbours. Stage 2 (NAEM, expectation maximisation) extends them: it separates the scores of
neighbours and of random other peers into two classes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Request, Train
from coterie.strategies.strategy import Estimates, Me, Peers, Strategy

Fetching = Generator[Request, Any, list[Offer]]


@dataclass
class PANM(Strategy):
    """Merge with the k most similar peers for T1 rounds, then with k random ones of a bag B.

    Parameters
    ----------
    fetches
        Number of neighbours merged per round (k).
    candidates
        Number of random peers outside the neighbour list that are scored (l).
    confident_rounds
        Number of rounds of stage 1 (T1).
    em_every
        Rounds between two runs of EM in stage 2 (τ_em).
    metric
        The similarity of the scores.
    alpha
        α of the metric "cosine-gradients".
    merge
        "fedavg" or "fedsim".
    tau
        Temperature τ, for FedSim only: p_i = softmax(τ·s_i) over the merged peers, by the latest
        scores.
    bag
        Bag members that EM did not score. "kept": they stay, as they were neither confirmed nor
        refuted. "found": they are dropped, as Algorithm 3 prints it.

    Examples
    --------
    Stage 1 fetches l = 2 random peers and keeps the k = 1 with the lowest loss.

    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> panm = PANM(fetches=1, candidates=2)
    >>> plan = panm.round(me)
    >>> next(plan)
    Fetch(peers=(2, 3))
    >>> score = plan.send([Offer(3, num_samples=10, message={}), Offer(2, 10, {})])
    >>> plan.send({3: 2.0, 2: 0.5})
    Merge(weights={0: 0.5, 2: 0.5}, last_layers=None)
    >>> panm.neighbours()
    array([2])

    References
    ----------
    Li et al., "Mining latent relationships among clients: peer-to-peer federated learning with
    adaptive neighbor matching", 2022.

    Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of
    decentralized deep learning strategies", master's thesis, Lund University, 2024. Appendix B.
    """

    fetches: int = 5
    candidates: Count = 5
    confident_rounds: int = 50
    em_every: Count = 2
    metric: Similarity = "inverse-loss"
    alpha: Share = 1.0
    merge: MergeRule = "fedavg"
    tau: Temperature = 5.0
    bag: Literal["kept", "found"] = "kept"
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)
    members: Peers = field(default_factory=lambda: np.zeros(0, np.int64), init=False)
    """The neighbour list N in stage 1, the bag B in stage 2."""

    name = "panm"
    summary = "merges with the most similar peers met, then with those that EM finds similar"

    def round(self, me: Me) -> Plan:
        """NSMC for T1 rounds, then NAEM every τ_em rounds; merge with k neighbours, train.

        EM cannot start from an empty bag, so NSMC fills it first.
        """
        self.members = self.members[me.is_other(self.members)]
        if me.round <= self.confident_rounds or not len(self.members):
            offers = yield from self._select_neighbours(me)
        else:
            offers = yield from self._sample_bag(me)
        peers = np.array([offer.peer for offer in offers], np.int64)
        probabilities = softmax_probabilities(peers, self.table.similarities(peers), self.tau)
        yield Merge(merge_weights(self.merge, me, offers, probabilities))
        yield Train()

    def _select_neighbours(self, me: Me) -> Fetching:
        """NSMC: N ← the k most similar of N and l candidates; silent peers keep their old score."""
        offers = yield Fetch((*self.members.tolist(), *self._sample_candidates(me)))
        scores = yield from self._measure(offers)
        met = np.union1d(self.members, np.array(list(scores), np.int64))
        order = np.argsort(-self.table.similarities(met), kind="stable")
        self.members = np.sort(met[order[: self.fetches]])
        return [offer for offer in offers if offer.peer in self.members]

    def _sample_bag(self, me: Me) -> Fetching:
        """Stage 2: update the bag if it is due, then fetch k random members of it."""
        held: list[Offer] = []
        if (me.round - self.confident_rounds) % self.em_every == 0:
            held = yield from self._update_bag(me)
        chosen = sample_uniformly(me.rng, self.members, self.fetches)
        return (yield from fetch_missing(chosen, held))

    def _update_bag(self, me: Me) -> Fetching:
        """NAEM: EM on the scores of S ⊂ B and candidates C; B ← (B \\ S) ∪ found, or found."""
        asked = sample_uniformly(me.rng, self.members, self.fetches)
        offers = yield Fetch((*asked, *self._sample_candidates(me)))
        scores = yield from self._measure(offers)
        scored = np.array(sorted(scores), np.int64)
        in_bag = np.isin(scored, asked)
        if in_bag.any():  # otherwise EM has no similar class to start from
            values = np.array([scores[peer] for peer in scored.tolist()])
            found = scored[find_similar(values, initial=in_bag)]
            unscored = np.setdiff1d(self.members, scored)
            self.members = np.union1d(unscored, found) if self.bag == "kept" else found
        return list(offers)

    def _sample_candidates(self, me: Me) -> tuple[int, ...]:
        """Draw l random peers that are not neighbours."""
        return sample_others(me, self.candidates, without=self.members)

    def _measure(self, offers: list[Offer]) -> SimilarityPlan:
        scores = yield from measure_similarities(offers, self.metric, self.alpha)
        self.table.record_scores(scores)
        return scores

    def neighbours(self) -> Peers:
        """Return the neighbour list N, or the bag B in stage 2."""
        return self.members

    def estimates(self, me: Me) -> Estimates:
        """Return the latest scores; neighbours have equal probabilities, all others have 0."""
        return self.table.estimates(uniform_probabilities(me.others, self.members))

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metrics of the similarity."""
        return metrics_for(self.metric, self.alpha)
