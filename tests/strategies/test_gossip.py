"""Gossip pushes its model to one peer, and averages half and half with each model it receives."""

from __future__ import annotations

import numpy as np

from coterie.strategies import Me, Merge, Offer, Receive, Send, Train
from coterie.strategies.gossip import Gossip


def test_a_round_averages_half_and_half_in_the_order_of_arrival():
    me = Me(peer=2, round=1, known=np.arange(5), num_samples=10, rng=np.random.default_rng(0))
    plan = Gossip().round(me)
    sent = next(plan)
    assert isinstance(sent, Send)
    assert len(sent.peers) == 1
    assert me.peer not in sent.peers
    assert isinstance(plan.send(None), Receive)
    # Numbers of samples do not matter.
    offers = [Offer(4, num_samples=1, message={}), Offer(1, num_samples=99, message={})]
    assert plan.send(offers) == Merge({2: 0.5, 4: 0.5})
    assert plan.send(None) == Merge({2: 0.5, 1: 0.5})
    assert isinstance(plan.send(None), Train)


def test_without_a_received_model_the_peer_only_trains():
    me = Me(peer=0, round=1, known=np.arange(3), num_samples=10, rng=np.random.default_rng(0))
    plan = Gossip().round(me)
    next(plan)
    plan.send(None)
    assert isinstance(plan.send([]), Train)
