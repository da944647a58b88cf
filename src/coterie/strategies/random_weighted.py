"""RandomWeighted: random peers, weighted by the accuracy of this peer's model on their data."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import AskScore, Fetch, Merge, Metric, Plan, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class RandomWeighted(Strategy):
    """Merge m random peers, each weighted by the accuracy that it reports.

    The own model is weighted by its accuracy on the own validation data.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(0, 1, np.arange(4), 10, np.random.default_rng(0), validation_score=0.75)
    >>> plan = RandomWeighted(fetches=1).round(me)
    >>> next(plan)
    AskScore(peers=(3,), metric='accuracy')
    >>> plan.send({3: 0.25})
    Fetch(peers=(3,))
    >>> plan.send([Offer(3, num_samples=10, message={})]).weights
    {0: 0.75, 3: 0.25}

    References
    ----------
    Onoszko, Karlsson, master's thesis on decentralised federated learning with heterogeneous data,
    2021.
    """

    fetches: int = 20

    name = "random-weighted"
    summary = "merges m random peers, weighted by the accuracy of its model on their data"

    def round(self, me: Me) -> Plan:
        """Sample, ask for accuracies, fetch, merge in proportion to them, train."""
        sampled = sample_others(me, self.fetches)
        accuracies = yield AskScore(sampled, "accuracy")
        offers = yield Fetch(tuple(accuracies))
        amounts = {offer.peer: accuracies[offer.peer] for offer in offers}
        total = me.validation_score + sum(amounts.values())
        if offers and total > 0:
            yield Merge(normalise({me.peer: me.validation_score, **amounts}))
        yield Train()

    def asks_for_scores(self) -> bool:
        """Return True: the own model is scored on other peers' data."""
        return True

    def required_metrics(self) -> frozenset[Metric]:
        """Return the metric that other peers are asked for."""
        return frozenset({"accuracy"})
