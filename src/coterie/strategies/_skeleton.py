"""Skeleton: copy this file to start a strategy of your own, then add it to `catalogue.py`.

State the idea in one sentence and name the paper. Keep to the order of the paper's algorithm box,
and to its symbols in comments. The conformance tests run over this file too, so it always works.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.strategies.parts.merging import normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Fetch, Merge, Plan, Score, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Skeleton(Strategy):
    """Merges with random peers, weighted by the inverse loss of their models on my data."""

    # Options: what a user may set, as `--set strategy.fetches=3`.
    fetches: int = 5
    # State: what is remembered between rounds; plain data, saved and restored by itself.
    last_losses: dict[str, float] = field(default_factory=dict, init=False)

    name = "skeleton"
    summary = "an example to copy: random peers, weighted by inverse loss"

    def round(self, me: Me) -> Plan:
        """Fetch, score on my data, merge by 1 / loss, train."""
        offers = yield Fetch(sample_uniformly(me.rng, me.others, self.fetches))
        losses = yield Score(tuple(offers))
        if losses:
            self.last_losses = {str(peer): loss for peer, loss in losses.items()}
            inverse = {peer: 1.0 / max(loss, 1e-12) for peer, loss in losses.items()}
            yield Merge(normalise({me.peer: max(inverse.values()), **inverse}))
        yield Train()
