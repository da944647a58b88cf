"""What peers measured and what they were told, in random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from networks import PEER_STRATEGIES, Asked, Watch, few, networks

from coterie.strategies import STRATEGIES
from coterie.strategies.parts.similarity_table import SimilarityTable
from coterie.strategies.requests import AskScore, Fetch, Offer, Score

WITH_TABLES = [
    name
    for name in PEER_STRATEGIES
    if isinstance(getattr(STRATEGIES[name](), "table", None), SimilarityTable)
]


def _known(table: SimilarityTable, num_peers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return similarities (K,), NaN where unknown, and which of them were measured (K,)."""
    everybody = np.arange(num_peers)
    return table.similarities(everybody), table.is_measured(everybody)


def test_strategies_with_tables_are_found():
    assert {"dac", "hast"} <= set(WITH_TABLES)


@pytest.mark.parametrize("name", WITH_TABLES)
@few(14)
@given(st.data())
def test_measurements_stay_and_estimates_are_quoted(name, data):
    """A measurement changes only by a newer one; an estimate is what a fetched peer passed on."""
    network = data.draw(networks([name], fewest_peers=3))
    watch = Watch(network)
    before = [_known(each.table, network.num_peers) for each in watch.strategies]
    told: list[set[tuple[int, float]]] = [set() for _ in before]
    vouched: list[set[tuple[int, float]]] = [set() for _ in before]
    for now in watch.rounds():
        asked = [each for each in watch.asked if each.round == now.number]
        after = [_known(each.table, network.num_peers) for each in watch.strategies]
        for peer, (values, is_measured) in enumerate(after):
            vouched[peer] |= _pairs(values, is_measured)
            told[peer] |= _heard(asked, peer)
            old_values, was_measured = before[peer]
            assert is_measured[was_measured].all()
            left_alone = was_measured.copy()
            left_alone[_scored(asked, peer)] = False
            np.testing.assert_array_equal(values[left_alone], old_values[left_alone])
            assert _pairs(values, ~np.isnan(values) & ~is_measured) <= told[peer]
            assert np.isnan(values[peer])
        if network.options.get("hops") == "two":
            _check_first_hand(asked, vouched)
        before = after
    if not network.options.get("two_hop"):
        assert all((np.isnan(values) | measured).all() for values, measured in before)


def _pairs(values: np.ndarray, chosen: np.ndarray) -> set[tuple[int, float]]:
    return {(int(peer), float(values[peer])) for peer in np.flatnonzero(chosen)}


def _scored(asked: list[Asked], peer: int) -> list[int]:
    """Return whom a peer was given measurements of."""
    return [
        other
        for each in asked
        if each.peer == peer and isinstance(each.request, Score | AskScore)
        for other in each.answer
    ]


def _said(offer: Offer) -> dict[int, float]:
    """Return the table that came beside a model, if one did."""
    peers, values = (offer.message.get(key, np.zeros(0)) for key in ("peers", "similarities"))
    return dict(zip(peers.tolist(), values.tolist(), strict=True))


def _offers(asked: list[Asked]) -> list[tuple[int, Offer]]:
    """Return who fetched what."""
    return [
        (each.peer, offer)
        for each in asked
        if isinstance(each.request, Fetch)
        for offer in each.answer
    ]


def _heard(asked: list[Asked], peer: int) -> set[tuple[int, float]]:
    """Return everything that came beside the models a peer fetched."""
    return {pair for who, offer in _offers(asked) if who == peer for pair in _said(offer).items()}


def _check_first_hand(asked: list[Asked], vouched: list[set[tuple[int, float]]]) -> None:
    """Whoever passed something on had measured it."""
    for _, offer in _offers(asked):
        assert set(_said(offer).items()) <= vouched[offer.peer]


@few(16)
@given(networks(["dac"], fewest_peers=4, failures=False))
def test_the_word_of_the_most_similar_stands(network):
    """ŝ_i(j) = s_{k*}(j), k* the most similar of the peers fetched in this round that know j."""
    assume(network.options["two_hop"])
    watch = Watch(network)
    for now in watch.rounds():
        fetched = _offers([each for each in watch.asked if each.round == now.number])
        for peer, strategy in enumerate(watch.strategies):
            values, is_measured = _known(strategy.table, network.num_peers)
            mine = [offer for who, offer in fetched if who == peer and is_measured[offer.peer]]
            for other in np.flatnonzero(~is_measured & ~np.isnan(values)):
                # Of peers that are equally similar either word will do.
                words: dict[float, set[float]] = {}
                for offer in mine:
                    if other in (said := _said(offer)):
                        words.setdefault(values[offer.peer], set()).add(said[other])
                assert not words or values[other] in words[max(words)]
