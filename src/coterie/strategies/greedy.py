"""Greedy and EpsilonGreedy: ask many peers, merge with those that are most similar.

The peer's model is sent to the asked peers, which score it on their own training data. Where it
does well, the data are probably similar.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.errors import ConfigError
from coterie.strategies.options import Share
from coterie.strategies.parts.fetching import fetch_missing
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import SamplingProbabilities, sample_uniformly
from coterie.strategies.parts.similarity import (
    MEASURED_ON_DATA,
    Scores,
    Similarity,
    measure_similarities,
    metrics_for,
    request_similarities,
)
from coterie.strategies.parts.similarity_table import SimilarityTable
from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Request, Train
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class Greedy(Strategy):
    """Ask m_sample random peers and merge with the m_selected most similar of them.

    Parameters
    ----------
    fetches
        Number of peers merged per round (m_selected).
    samples
        Number of peers asked per round (m_sample).
    metric
        The similarity to rank by. The thesis ranks by accuracy of the own model on their data.
    alpha
        α of the metric "cosine-gradients".
    epsilon, decay
        ε and λ of EpsilonGreedy(ε, λ). In round t, n ~ Bin(m_selected, ε·λ^t) of the selected
        peers are swapped for random ones from (sampled \\ selected) ∪ swapped-out. ε = 0 is Greedy.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> plan = Greedy(fetches=1, samples=3).round(me)
    >>> next(plan)
    AskScore(peers=(3, 1, 2), metric='accuracy')
    >>> plan.send({3: 0.2, 1: 0.4, 2: 0.9})
    Fetch(peers=(2,))

    References
    ----------
    Onoszko, Karlsson, master's thesis on decentralised federated learning with heterogeneous data,
    2021.
    """

    fetches: int = 4
    samples: int = 20
    metric: Similarity = "accuracy"
    alpha: Share = 1.0
    epsilon: float = 0.0
    decay: float = 1.0
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)
    """The latest scores, for the records only: no decision depends on it."""

    name = "greedy"
    summary = "asks m_sample random peers, merges with the m_selected most similar"

    def round(self, me: Me) -> Plan:
        """Sample, score, select, explore, fetch, average, train."""
        sampled = sample_others(me, self.samples)
        scores, held = yield from score_peers(sampled, self.metric, self.alpha)
        self.table.record_scores(scores)
        selected = self.explore(me, tuple(scores), most_similar(scores, self.fetches))
        offers = yield from fetch_missing(selected, held)
        yield Merge(federated_average(me, offers))
        yield Train()

    def explore(
        self, me: Me, sampled: tuple[int, ...], selected: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return the selection with n ~ Bin(m_selected, ε·λ^t) peers swapped for random ones."""
        if self.epsilon == 0:
            return selected
        num_swapped = int(me.rng.binomial(len(selected), self.epsilon * self.decay**me.round))
        out = set(sample_uniformly(me.rng, np.array(selected, np.int64), num_swapped))
        kept = tuple(peer for peer in selected if peer not in out)
        candidates = np.array([peer for peer in sampled if peer not in kept], np.int64)
        return (*kept, *sample_uniformly(me.rng, candidates, num_swapped))

    def estimates(self, me: Me) -> Estimates:
        """Return the latest scores; selection depends on the peers that are sampled."""
        return self.table.estimates(
            SamplingProbabilities(me.others, np.full(len(me.others), np.nan))
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
        if not (0 <= self.epsilon <= 1 and 0 <= self.decay <= 1):
            raise ConfigError(
                f"strategy.epsilon = {self.epsilon} and strategy.decay = {self.decay}: both must "
                "lie between 0 and 1."
            )


def score_peers(
    peers: tuple[int, ...], metric: Similarity, alpha: float
) -> Generator[Request, Any, tuple[Scores, list[Offer]]]:
    """Score peers by the own model on their data, or by weights, which needs their models.

    Parameters
    ----------
    peers
        The peers to score.
    metric, alpha
        The similarity, and α of "cosine-gradients".

    Returns
    -------
    tuple
        {peer: similarity}, and the offers that were fetched for it.

    Examples
    --------
    >>> next(score_peers((1, 2), "accuracy", alpha=1.0))
    AskScore(peers=(1, 2), metric='accuracy')
    >>> next(score_peers((1, 2), "cosine-weights", alpha=1.0))
    Fetch(peers=(1, 2))
    """
    if metric in MEASURED_ON_DATA:
        return (yield from request_similarities(peers, metric)), []
    offers: list[Offer] = yield Fetch(peers)
    return (yield from measure_similarities(offers, metric, alpha)), offers


def most_similar(scores: Scores, count: int) -> tuple[int, ...]:
    """Return the peers with the highest scores; among equals, those asked first.

    Parameters
    ----------
    scores
        {peer: similarity}, in the order in which the peers were asked.
    count
        How many peers to return, at most.

    Examples
    --------
    >>> most_similar({4: 0.5, 2: 0.5, 3: 0.9}, 2)
    (3, 4)
    """
    return tuple(sorted(scores, key=lambda peer: -scores[peer])[:count])


def check_samples(samples: int, fetches: int, num_peers: int) -> None:
    """Raise a ConfigError unless fetches ≤ samples < number of peers."""
    if not fetches <= samples < num_peers:
        raise ConfigError(
            f"strategy.samples is {samples}; it must be at least strategy.fetches ({fetches}) and "
            f"less than the number of peers ({num_peers})."
        )
