"""Greedy and EpsilonGreedy: ask many, merge with whom my model suits best (thesis 004).

My model is sent to the asked peers, who measure it on their own training data: where it does well,
the data are probably like mine.
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
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Request, Train
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class Greedy(Strategy):
    """Asks `samples` random peers and merges with the `fetches` most similar of them.

    `epsilon` and `decay` make it EpsilonGreedy(ε, λ): n ~ Bin(m_selected, ε·λ^t) of the selected
    are swapped for random ones from (sampled \\ selected) ∪ swapped-out.
    """

    fetches: int = 4
    samples: int = 20
    metric: Similarity = "accuracy"
    alpha: Share = 1.0
    epsilon: float = 0.0
    decay: float = 1.0
    table: SimilarityTable = field(default_factory=SimilarityTable, init=False)
    """What I found last, for the records: nothing is decided by it."""

    name = "greedy"
    summary = "asks m_sample random peers, merges with the m_selected most similar"

    def round(self, me: Me) -> Plan:
        """Ask, select, explore, fetch, average, train."""
        sampled = sample_uniformly(me.rng, me.others, self.samples)
        scores, held = yield from score_peers(sampled, self.metric, self.alpha)
        self.table.record_scores(scores)
        selected = self.explore(me, tuple(scores), most_similar(scores, self.fetches))
        offers = yield from fetch_missing(selected, held)
        yield Merge(federated_average(me, offers))
        yield Train()

    def explore(
        self, me: Me, sampled: tuple[int, ...], selected: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Swap n ~ Bin(m_selected, ε·λ^t) of the selected for random ones."""
        if self.epsilon == 0:
            return selected
        num_swapped = int(me.rng.binomial(len(selected), self.epsilon * self.decay**me.round))
        out = set(sample_uniformly(me.rng, np.array(selected, np.int64), num_swapped))
        kept = tuple(peer for peer in selected if peer not in out)
        candidates = np.array([peer for peer in sampled if peer not in kept], np.int64)
        return (*kept, *sample_uniformly(me.rng, candidates, num_swapped))

    def estimates(self, me: Me) -> Estimates:
        """Return what I found last; whom I choose depends on whom chance lets me ask."""
        return self.table.estimates(
            SamplingProbabilities(me.others, np.full(len(me.others), np.nan))
        )

    def asks_for_scores(self) -> bool:
        """Return whether my model is measured on their data."""
        return self.metric in MEASURED_ON_DATA

    def required_metrics(self) -> frozenset[Metric]:
        """Return what I will measure."""
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
    """Score peers: by my model on their data, or by weights, for which their models are fetched.

    Returns the scores and what was fetched.
    """
    if metric in MEASURED_ON_DATA:
        return (yield from request_similarities(peers, metric)), []
    offers: list[Offer] = yield Fetch(peers)
    return (yield from measure_similarities(offers, metric, alpha)), offers


def most_similar(scores: Scores, count: int) -> tuple[int, ...]:
    """Return the peers with the highest scores, the first asked first among equals."""
    return tuple(sorted(scores, key=lambda peer: -scores[peer])[:count])


def check_samples(samples: int, fetches: int, num_peers: int) -> None:
    """Raise a ConfigError unless fetches ≤ samples < number of peers."""
    if not fetches <= samples < num_peers:
        raise ConfigError(
            f"strategy.samples is {samples}; it must be at least strategy.fetches ({fetches}) and "
            f"less than the number of peers ({num_peers})."
        )
