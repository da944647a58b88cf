"""Skeleton: copy this file to start a new strategy, then add the class to `catalogue.py`.

Say in one sentence what the strategy does, and cite the paper under References. Follow the order of
the paper's algorithm, and give its symbols. The conformance tests cover this file too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Score, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Skeleton(Strategy):
    """Merge with m random peers, weighted by the inverse loss of their models on the own data.

    Parameters
    ----------
    fetches
        Number of peers sampled per round (m).

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> plan = Skeleton(fetches=2).round(me)
    >>> next(plan)
    Fetch(peers=(2, 3))
    >>> score = plan.send([Offer(3, num_samples=10, message={})])
    >>> plan.send({3: 0.5})
    Merge(weights={0: 0.5, 3: 0.5}, last_layers=None)

    References
    ----------
    Authors, "Title", year. Section and equation.
    """

    # Options: set by the user, as in `--set strategy.fetches=3`.
    fetches: int = 5
    # State: remembered between rounds. Plain data is saved and restored automatically.
    last_losses: dict[str, float] = field(default_factory=dict, init=False)

    name = "skeleton"
    summary = "an example to copy: random peers, weighted by inverse loss"

    def round(self, me: Me) -> Plan:
        """Sample, fetch, score on the own data, merge by 1 / loss, train."""
        offers = yield Fetch(sample_uniformly(me.rng, me.others, self.fetches))
        losses = yield Score(tuple(offers))
        if losses:
            self.last_losses = {str(peer): loss for peer, loss in losses.items()}
            inverse = {peer: 1.0 / max(loss, 1e-12) for peer, loss in losses.items()}
            yield Merge(normalise({me.peer: max(inverse.values()), **inverse}))
        yield Train()
