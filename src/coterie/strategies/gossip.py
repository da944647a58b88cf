"""Gossip: classic push gossip (Ormándi et al.). Nobody asks; models simply arrive."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Merge, Plan, Receive, Send, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Gossip(Strategy):
    """Sends its model to one random peer each round; averages pairwise what arrives."""

    receives_models = True
    name = "gossip"
    summary = "sends its model to one random peer, averages what arrives one by one"

    def round(self, me: Me) -> Plan:
        """Push to one peer; average my model with each arrival in turn; train."""
        yield Send(sample_uniformly(me.rng, me.others, 1))
        for arrival in (yield Receive()):
            yield Merge({me.peer: 0.5, arrival.peer: 0.5})
        yield Train()
