"""Options do what they say within a whole round, in every strategy that has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import drive

from coterie.strategies import make_strategy
from coterie.strategies.gossip import Gossip
from coterie.strategies.pens import PENS
from coterie.strategies.requests import AskScore, Fetch, Merge, Offer, Receive, Score, Send, Train
from coterie.strategies.strategy import Me

NUM_PEERS = 9
UNKNOWN = 8
"""Whom nobody has met."""


def me(round_number: int = 1) -> Me:
    return Me(0, round_number, np.arange(NUM_PEERS), 10, np.random.default_rng(round_number))


def play(strategy, round_number: int = 1, table: dict[int, float] | None = None) -> list:
    """Run one round in which everybody answers, and sends a table; return the requests."""
    told = {
        "peers": np.array(list(table or {}), np.int64),
        "similarities": np.array(list((table or {}).values()), np.float64),
    }

    def answer(request: object) -> object:
        match request:
            case Fetch(peers):
                return [Offer(peer, 10, told) for peer in peers]
            case Score(offers):
                return {offer.peer: offer.peer / 10 for offer in offers}
            case AskScore(peers):
                return {peer: peer / 10 for peer in peers}
        return None

    return drive(strategy.round(me(round_number)), answer)


def chances(strategy, round_number: int = 1) -> dict[int, float]:
    found = strategy.chances(me(round_number))
    return dict(zip(found.peers.tolist(), np.exp(found.log_probabilities), strict=True))


def expected(tau: float, similarities: dict[int, float]) -> dict[int, float]:
    """Return softmax(τ·s) by hand, with s = 0 for whoever is not named."""
    amounts = {p: math.exp(tau * similarities.get(p, 0.0)) for p in range(1, NUM_PEERS)}
    return {peer: amount / sum(amounts.values()) for peer, amount in amounts.items()}


@pytest.mark.parametrize("round_number", [1, 5, 40])
def test_dac_var_draws_with_the_temperature_of_the_round(round_number):
    strategy = make_strategy("dac", {"tau": 4.0, "temperature": "growing"})
    strategy.table.measured({1: 1.0, 2: 0.5})
    tau = 1 + 3 * math.tanh(0.1 * round_number)
    assert chances(strategy, round_number) == pytest.approx(expected(tau, {1: 1.0, 2: 0.5}))


@pytest.mark.parametrize("name", ["dac", "hast"])
def test_peers_nobody_knows_are_drawn_as_the_option_says(name):
    """The paper gives them s = 0, the thesis leaves them out, but for 1e-6."""
    seen = dict.fromkeys(range(1, UNKNOWN), 1.0)
    zero, epsilon = (
        make_strategy(name, {"tau": 2.0, "unseen": unseen}) for unseen in ("zero", "epsilon")
    )
    for strategy in (zero, epsilon):
        strategy.table.measured(seen)
    assert chances(zero) == pytest.approx(expected(2.0, seen))
    assert chances(epsilon)[UNKNOWN] == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize("name", ["dac", "hast"])
@pytest.mark.parametrize("two_hop", [True, False])
def test_what_others_tell_counts_only_with_two_hops(name, two_hop):
    strategy = make_strategy(name, {"fetches": 2, "two_hop": two_hop})
    play(strategy, table=dict.fromkeys(range(1, NUM_PEERS), 0.3))
    everybody = np.arange(1, NUM_PEERS)
    measured = strategy.table.is_measured(everybody)
    known = ~np.isnan(strategy.table.similarities(everybody))
    assert 0 < measured.sum() < len(everybody)
    assert known.tolist() == ([True] * len(everybody) if two_hop else measured.tolist())


@pytest.mark.parametrize("name", ["dac", "hast"])
def test_estimates_are_passed_on_only_over_any_hops(name):
    for hops in ("two", "any"):
        strategy = make_strategy(name, {"fetches": 2, "hops": hops})
        play(strategy, table=dict.fromkeys(range(1, NUM_PEERS), 0.3))
        everybody = np.arange(1, NUM_PEERS)
        measured = everybody[strategy.table.is_measured(everybody)]
        passed_on = strategy.message()["peers"]
        assert passed_on.tolist() == (everybody if hops == "any" else measured).tolist()


@pytest.mark.parametrize("name", ["dac", "hast", "panm", "greedy", "pens"])
@pytest.mark.parametrize(("alpha", "metrics"), [
    (1.0, {"cosine-last-update"}),
    (0.0, {"cosine-total-update"}),
    (0.5, {"cosine-last-update", "cosine-total-update"}),
])  # fmt: skip
def test_alpha_says_which_changes_are_compared(name, alpha, metrics):
    few = {"samples": 5} if name in ("greedy", "pens") else {}
    options = {"fetches": 2, "metric": "cosine-gradients", "alpha": alpha, **few}
    strategy = make_strategy(name, options)
    asked = play(strategy)
    assert {request.metric for request in asked if isinstance(request, Score)} == metrics
    assert strategy.required_metrics() == metrics


def test_pens_explores_through_the_last_round_of_step_1_and_then_trains_as_configured():
    """R1 rounds with the epochs of step 1; from R1 + 1 on those of everybody."""
    strategy = PENS(fetches=2, samples=5, samplings=2, exploration_rounds=3, exploration_epochs=7)
    asked = {number: play(strategy, number) for number in range(1, 6)}
    exploring = [n for n, requests in asked.items() if isinstance(requests[0], AskScore)]
    assert exploring == [1, 2, 3]
    assert [requests[-1] for requests in asked.values()] == [Train(epochs=7)] * 3 + [Train()] * 2


def test_gossip_sends_to_one_and_averages_pairwise_what_arrives():
    """Of three arrivals the last has the most weight: (((me + 5)/2 + 2)/2 + 7)/2."""

    def answer(request: object) -> object:
        return [Offer(p, 10 * p, {}) for p in (5, 2, 7)] if isinstance(request, Receive) else None

    send, receive, *merges, train = drive(Gossip().round(me()), answer)
    assert isinstance(send, Send)
    assert len(send.peers) == 1
    assert receive == Receive()
    assert merges == [Merge({0: 0.5, peer: 0.5}) for peer in (5, 2, 7)]
    assert train == Train()
