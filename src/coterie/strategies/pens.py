"""PENS: performance-based neighbour selection (Onoszko & Karlsson 2021, thesis 004).

Step 1 finds neighbours: those a greedy choice selects more often than chance. Step 2 is Random
among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coterie.strategies.greedy import check_samples, most_similar, score_peers
from coterie.strategies.options import Share
from coterie.strategies.parts.fetching import fetch_missing
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.parts.sampling import sample_uniformly, uniform_probabilities
from coterie.strategies.parts.similarity import MEASURED_ON_DATA, Similarity, metrics_for
from coterie.strategies.requests import Fetch, Merge, Metric, Offer, Plan, Train
from coterie.strategies.strategy import Estimates, Me, Strategy


@dataclass
class PENS(Strategy):
    """Selects greedily for R1 = `exploration_rounds` rounds, then merges with neighbours only.

    Ranked by accuracy in the thesis, by inverse loss in the DAC paper.
    """

    fetches: int = 4
    samples: int = 20
    samplings: int = 10
    exploration_rounds: int = 20
    exploration_epochs: int = 10
    later_fetches: int = 20
    metric: Similarity = "accuracy"
    alpha: Share = 1.0
    num_selected: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64), init=False
    )
    """How often each peer was selected: the history."""
    num_sampled: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64), init=False
    )

    name = "pens"
    summary = "keeps as neighbours whom a greedy choice selects more often than chance"

    def round(self, me: Me) -> Plan:
        """Step 1 for R1 rounds, step 2 from then on; models are not reset in between."""
        if me.round <= self.exploration_rounds:
            yield from self._find_neighbours(me)
        else:
            offers = yield Fetch(sample_uniformly(me.rng, self._drawn_from(me), self.later_fetches))
            yield Merge(federated_average(me, offers))
            yield Train()

    def _find_neighbours(self, me: Me) -> Plan:
        """Select `samplings` times, remember all selections, merge the last one."""
        selected: tuple[int, ...] = ()
        held: list[Offer] = []
        for _ in range(self.samplings):
            sampled = sample_uniformly(me.rng, me.others, self.samples)
            scores, fetched = yield from score_peers(sampled, self.metric, self.alpha)
            held += fetched
            selected = most_similar(scores, self.fetches)
            self.num_sampled = add_counts(self.num_sampled, tuple(scores))
            self.num_selected = add_counts(self.num_selected, selected)
        offers = yield from fetch_missing(selected, held)
        yield Merge(federated_average(me, offers))
        yield Train(epochs=self.exploration_epochs)

    def neighbours(self) -> npt.NDArray[np.int64]:
        """Those selected more often than chance: count > |history| / |sampled|."""
        ever_sampled = int(np.count_nonzero(self.num_sampled))
        expected = int(self.num_selected.sum()) / max(ever_sampled, 1)
        return np.flatnonzero(self.num_selected > expected)

    def _drawn_from(self, me: Me) -> npt.NDArray[np.int64]:
        """Return whom I draw from: anybody in step 1, and while I have no neighbours."""
        neighbours = self.neighbours()
        exploring = me.round <= self.exploration_rounds
        return me.others if exploring or not len(neighbours) else neighbours

    def estimates(self, me: Me) -> Estimates:
        """Return how often each was selected of the times it was sampled."""
        chances = uniform_probabilities(me.others, self._drawn_from(me))
        known = np.isin(me.others, np.flatnonzero(self.num_sampled))
        peers = me.others[known]
        # Those selected are among those sampled: only their count can be the shorter one.
        missing = len(self.num_sampled) - len(self.num_selected)
        selected = np.pad(self.num_selected, (0, missing))
        return Estimates(
            peers,
            selected[peers] / self.num_sampled[peers],
            np.ones(len(peers), dtype=bool),
            np.exp(chances.log_probabilities[known]),
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


def add_counts(counts: npt.NDArray[np.int64], peers: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the counts with one more for each of the peers, longer if need be."""
    more = np.bincount(np.array(peers, np.int64), minlength=len(counts))
    more[: len(counts)] += counts
    return more
