"""Gossip: gossip learning, where each peer pushes its model to a random peer."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.strategies.parts.unlisted_peers import sample_others
from coterie.strategies.requests import Merge, Plan, Receive, Send, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Gossip(Strategy):
    """Push the model to one random peer each round; average pairwise with each model received.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> plan = Gossip().round(me)
    >>> next(plan)
    Send(peers=(3,))
    >>> plan.send(None)
    Receive()
    >>> plan.send([Offer(2, num_samples=10, message={})])
    Merge(weights={0: 0.5, 2: 0.5}, last_layers=None)

    References
    ----------
    Ormándi, Hegedűs, Jelasity, "Gossip learning with linear models on fully distributed data",
    2013.
    """

    name = "gossip"
    summary = "pushes its model to one random peer, averages pairwise with models received"
    receives_models = True

    def round(self, me: Me) -> Plan:
        """Push to one peer; average with each received model in turn; train."""
        yield Send(sample_others(me, 1))
        for received in (yield Receive()):
            yield Merge({me.peer: 0.5, received.peer: 0.5})
        yield Train()
