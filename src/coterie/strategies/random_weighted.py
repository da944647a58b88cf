"""RandomWeighted: anybody's model counts, as much as mine does well on their data (thesis 004)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import AskScore, Fetch, Merge, Metric, Plan, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class RandomWeighted(Strategy):
    """Merges m = `fetches` random peers, weighted by the accuracies they report.

    My own model has my own validation accuracy as its weight.
    """

    fetches: int = 20
    name = "random-weighted"
    summary = "merges m random peers, weighted by the accuracy of my model on their data"

    def round(self, me: Me) -> Plan:
        """Ask, fetch, merge in proportion to accuracies, train."""
        accuracies = yield AskScore(sample_uniformly(me.rng, me.others, self.fetches), "accuracy")
        offers = yield Fetch(tuple(accuracies))
        amounts = {offer.peer: accuracies[offer.peer] for offer in offers}
        total = me.validation_accuracy + sum(amounts.values())
        if offers and total > 0:
            yield Merge(normalise({me.peer: me.validation_accuracy, **amounts}))
        yield Train()

    def asks_for_scores(self) -> bool:
        """Return whether my model is measured on their data."""
        return True

    def required_metrics(self) -> frozenset[Metric]:
        """Return what I will ask for."""
        return frozenset({"accuracy"})
