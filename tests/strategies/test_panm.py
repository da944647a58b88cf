"""PANM, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from plans import drive

from coterie.errors import ConfigError
from coterie.strategies import make_strategy
from coterie.strategies.panm import PANM
from coterie.strategies.requests import Fetch, Merge, Offer, Score, Train
from coterie.strategies.strategy import Me

NUM_PEERS = 21
KIND = set(range(1, 9))
"""Peers 1 to 8 are of my kind: their models have a loss of about 1 on my data, others of 4."""
LOSSES = {peer: (1.0 if peer in KIND else 4.0) + peer / 100 for peer in range(1, NUM_PEERS)}


def me(round_number: int = 1, *, known: int = NUM_PEERS) -> Me:
    return Me(0, round_number, np.arange(known), 10, np.random.default_rng(round_number))


def play(
    strategy: PANM,
    round_number: int,
    *,
    silent: frozenset[int] = frozenset(),
    losses: Mapping[int, float] = LOSSES,
    known: int = NUM_PEERS,
) -> list:
    """Run one round in which everybody but the silent answers; return the requests."""

    def answer(request: object) -> object:
        match request:
            case Fetch(peers):
                return [Offer(peer, 10, {}) for peer in peers if peer not in silent]
            case Score(offers):
                return {offer.peer: losses[offer.peer] for offer in offers}
        return None

    return drive(strategy.round(me(round_number, known=known)), answer)


def with_bag(*members: int, **options: object) -> PANM:
    """Return a strategy that is in stage 2 from round 1 on, with these in its bag."""
    strategy = PANM(**{"confident_rounds": 0, **options})
    strategy.members = np.array(members, np.int64)
    return strategy


def fetched(asked: list) -> list[int]:
    return [peer for request in asked if isinstance(request, Fetch) for peer in request.peers]


def merged(asked: list) -> set[int]:
    (merge,) = (request for request in asked if isinstance(request, Merge))
    return set(merge.weights) - {0}


def test_stage_1_scores_neighbours_and_strangers_and_merges_the_best_k():
    strategy = PANM(fetches=3, candidates=4)
    asked = play(strategy, 1)
    assert [type(request) for request in asked] == [Fetch, Score, Merge, Train]
    assert len(asked[0].peers) == 4, "nobody is a neighbour yet"
    best = sorted(asked[0].peers, key=LOSSES.__getitem__)[:3]
    assert merged(asked) == set(best) == set(strategy.neighbours())
    again = play(strategy, 2)
    assert set(best) < set(again[0].peers)
    assert len(set(again[0].peers)) == 3 + 4, "strangers are not among the neighbours"
    top = sorted({*asked[0].peers, *again[0].peers}, key=LOSSES.__getitem__)[:3]
    assert merged(again) == set(top) == set(strategy.neighbours())


def test_stage_1_ends_with_the_most_similar_of_all():
    strategy = PANM()
    for number in range(1, 40):
        play(strategy, number)
    assert strategy.neighbours().tolist() == [1, 2, 3, 4, 5]


def test_a_silent_neighbour_keeps_its_place_but_is_not_merged():
    strategy = PANM(fetches=2)
    strategy.members = np.array([1, 2])
    strategy.table.record_scores({1: 1 / LOSSES[1], 2: 1 / LOSSES[2]})
    asked = play(strategy, 1, silent=frozenset({1}))
    assert strategy.neighbours().tolist() == [1, 2]
    assert merged(asked) == {2}


def test_a_silent_stranger_is_not_made_a_neighbour():
    """Not even if it did well when I met it long ago."""
    strategy = PANM(fetches=5, candidates=20)
    strategy.table.record_scores({1: 100.0})
    play(strategy, 1, silent=frozenset({1}))
    assert strategy.neighbours().tolist() == [2, 3, 4, 5, 6]


def test_stage_2_merges_k_random_ones_of_the_bag():
    strategy = with_bag(2, 4, 6, 8, 10, 12, fetches=3, em_every=1000)
    seen = []
    for number in range(1, 60):
        asked = play(strategy, number)
        assert [type(request) for request in asked] == [Fetch, Merge, Train]
        assert len(merged(asked)) == 3
        seen += asked[0].peers
    counts = np.bincount(seen)
    assert counts[[2, 4, 6, 8, 10, 12]].sum() == len(seen)
    assert counts[[2, 4, 6, 8, 10, 12]].min() > 15
    assert strategy.neighbours().tolist() == [2, 4, 6, 8, 10, 12]


def test_the_stages_follow_each_other_and_em_comes_every_so_many_rounds():
    """T1 = 4, EM every 3 rounds: strangers are met in rounds 1–4, then in 7, 10, 13."""
    strategy = PANM(confident_rounds=4, em_every=3)
    asked = {number: play(strategy, number) for number in range(1, 14)}
    measuring = [n for n, requests in asked.items() if any(type(r) is Score for r in requests)]
    assert measuring == [1, 2, 3, 4, 7, 10, 13]


def test_em_adds_strangers_of_my_kind_and_removes_members_of_another():
    strategy = with_bag(1, 2, 3, 4, 18, candidates=20, em_every=1)
    play(strategy, 1)
    assert set(strategy.neighbours()) == KIND


@pytest.mark.parametrize(("bag", "expected"), [
    ("kept", {7, 8, 17, 18, 19, 20}),
    ("found", {7, 8}),
])  # fmt: skip
def test_members_that_were_not_scored_stay_unless_only_the_found_are_wanted(bag, expected):
    """S = {7, 8}: the other members answered nothing, so they were neither confirmed nor refuted.

    Whoever is a stranger scores far below, so nobody joins.
    """
    strategy = with_bag(7, 8, 17, 18, 19, 20, fetches=6, em_every=1, bag=bag, candidates=3)
    losses = {peer: 1.0 if peer in (7, 8) else 9.0 + peer / 10 for peer in LOSSES}
    play(strategy, 1, silent=frozenset({17, 18, 19, 20}), losses=losses)
    assert set(strategy.neighbours()) == expected


def test_s_is_k_random_members_of_the_bag():
    strategy = with_bag(*sorted(KIND), fetches=3, candidates=2, em_every=1)
    asked = play(strategy, 1)
    first = asked[0].peers
    assert len(set(first)) == 5
    assert len(set(first) & KIND) == 3
    unscored = KIND - set(first)
    assert unscored <= set(strategy.neighbours())


def test_what_em_fetched_is_not_fetched_again():
    strategy = with_bag(*sorted(KIND), fetches=5, candidates=5, em_every=1)
    for number in range(1, 20):
        asked = play(strategy, number)
        everybody = fetched(asked)
        assert len(set(everybody)) == len(everybody)
        assert len(merged(asked)) == 5
        assert merged(asked) <= set(strategy.neighbours())


def test_where_no_member_answers_the_bag_stays():
    """Strangers alone are nobody to compare with."""
    for bag in ("kept", "found"):
        strategy = with_bag(1, 2, 3, em_every=1, bag=bag)
        asked = play(strategy, 1, silent=frozenset({1, 2, 3}))
        assert strategy.neighbours().tolist() == [1, 2, 3]
        assert merged(asked) == set()


def test_where_no_stranger_is_left_the_bag_stays():
    strategy = with_bag(*range(1, NUM_PEERS), em_every=1)
    asked = play(strategy, 1)
    assert strategy.neighbours().tolist() == list(range(1, NUM_PEERS))
    assert len(merged(asked)) == 5


def test_an_empty_bag_is_filled_as_in_stage_1():
    strategy = with_bag(em_every=1, fetches=4, candidates=20)
    assert merged(play(strategy, 9)) == {1, 2, 3, 4} == set(strategy.neighbours())


def test_a_shift_turns_the_bag_over():
    """When my data change, the old members score below the strangers, who take their place."""
    strategy = with_bag(1, 2, 3, 4, 5, candidates=20, em_every=1)
    play(strategy, 1, losses={peer: 1.0 if peer > 12 else 4.0 for peer in LOSSES})
    assert set(strategy.neighbours()) == set(range(13, NUM_PEERS))


def test_members_whose_address_is_gone_are_forgotten():
    strategy = with_bag(1, 2, 19, 20, em_every=1000)
    assert merged(play(strategy, 1, known=10)) == {1, 2}
    assert strategy.neighbours().tolist() == [1, 2]


def test_fewer_others_than_k():
    strategy = PANM(fetches=5, candidates=5, confident_rounds=2, em_every=1)
    for number in range(1, 6):
        assert merged(play(strategy, number, known=3)) == {1, 2}


def test_losses_that_are_no_numbers_are_not_known():
    strategy = PANM(fetches=2, candidates=20)
    broken = {**LOSSES, 1: math.nan, 2: math.inf}
    play(strategy, 1, losses=broken)
    assert strategy.neighbours().tolist() == [3, 4]
    assert not strategy.table.is_measured(np.array([1])).any()
    again = with_bag(1, 2, 3, 4, 5, candidates=20, em_every=1)
    play(again, 1, losses=broken)
    assert set(again.neighbours()) == KIND - {2}, "1 is not known, so it stays; 2 is hopeless"


def test_fedsim_by_hand():
    """Weights ∝ softmax(τ·s) of what was measured last, my own the largest of them."""
    strategy = with_bag(1, 2, merge="fedsim", tau=2.0, em_every=1000)
    strategy.table.record_scores({1: 1.0, 2: 0.5})
    (merge,) = (request for request in play(strategy, 1) if isinstance(request, Merge))
    smaller = math.exp(-1.0)
    total = 2 + smaller
    assert merge.weights == pytest.approx({0: 1 / total, 1: 1 / total, 2: smaller / total})


def test_fedsim_of_peers_nobody_measured_is_uniform():
    (merge,) = (r for r in play(with_bag(1, 2, merge="fedsim"), 1) if isinstance(r, Merge))
    assert merge.weights == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})


@pytest.mark.parametrize("option", ["candidates", "em_every"])
def test_options_that_cannot_work_are_refused(option):
    with pytest.raises(ConfigError, match=rf"strategy\.{option} = 0 cannot be used"):
        make_strategy("panm", {option: 0})


@pytest.mark.parametrize("bag", ["kept", "found"])
def test_panm_finds_its_kind_in_a_real_network(make_simulation, bag):
    """Two clusters that disagree about the labels: the bags hold peers of the own one."""
    with make_simulation(
        lambda: PANM(fetches=3, candidates=4, confident_rounds=6, em_every=1, bag=bag),
        [40] * 16,
        rounds=14,
    ) as simulation:
        while not simulation.finished:
            simulation.advance()
        bags = [strategy.neighbours() for strategy in simulation._runtime.strategies]
        own = [(bag % 2 == peer % 2) for peer, bag in enumerate(bags)]
        assert np.concatenate(own).mean() > 0.9
        assert np.mean([same.sum() for same in own]) > 3, "EM finds more than the first k"
