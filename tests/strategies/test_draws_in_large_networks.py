"""Draws that do not list all peers: the same as draws that do, or equal to them in distribution.

They are called directly, in networks small enough to list all peers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare, ks_2samp

from coterie.strategies.dac import DAC
from coterie.strategies.kin.sample_similar_first import sample_similar_first
from coterie.strategies.parts.sampling import sample_uniformly, softmax_probabilities
from coterie.strategies.parts.similarity_table import SimilarityTable
from coterie.strategies.parts.unlisted_peers import (
    UnlistedPeers,
    divide_others,
    draw_smallest,
    sample_others,
)
from coterie.strategies.strategy import MOST_LISTED, Me

NUM_PEERS = 6
LISTED = np.array([1, 4])
REST = UnlistedPeers(np.arange(NUM_PEERS), left_out=LISTED)
PAIRS = list(permutations(range(NUM_PEERS), 2))
UNLIKELY = 1e-3
"""With fixed seeds a test either always passes or never."""


def me(known: np.ndarray, peer: int, seed: int = 0) -> Me:
    return Me(peer, 1, known, 10, np.random.default_rng(seed))


def count_pairs(draw: Callable[[np.random.Generator], tuple[int, ...]], times: int) -> list[int]:
    """Return how often each ordered pair of peers was drawn."""
    rng = np.random.default_rng(1)
    counts = Counter(draw(rng) for _ in range(times))
    assert set(counts) <= set(PAIRS)
    return [counts[pair] for pair in PAIRS]


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30)), st.integers(0, 12))
def test_uniform_draws_are_those_from_the_list_of_all_others(known, without, count):
    peers, left_out = np.array(sorted(known)), np.array(sorted(without), np.int64)
    for peer in (int(peers[0]), 31):
        others = np.setdiff1d(me(peers, peer).others, left_out)
        expected = sample_uniformly(me(peers, peer).rng, others, count)
        assert sample_others(me(peers, peer), count, left_out) == expected


def test_the_smallest_exponential_values():
    rng = np.random.default_rng(0)
    drawn = np.array([draw_smallest(rng, 20, 3) for _ in range(2000)])
    sorted_ones = np.sort(rng.standard_exponential((2000, 20)))[:, :3]
    for rank in range(3):
        assert ks_2samp(drawn[:, rank], sorted_ones[:, rank]).pvalue > UNLIKELY
    assert len(draw_smallest(rng, 2, 3)) == 2


@pytest.mark.parametrize("unseen", ["zero", "epsilon"])
@pytest.mark.parametrize("similarities", [(0.05, -0.02), (-0.4, -0.5), (30.0, 29.99)])
def test_softmax_probabilities_are_those_of_the_whole_list(unseen, similarities):
    everyone = np.full(NUM_PEERS, np.nan)
    everyone[LISTED] = similarities
    whole = softmax_probabilities(np.arange(NUM_PEERS), everyone, 30.0, unseen)
    parts = softmax_probabilities(LISTED, np.array(similarities), 30.0, unseen, REST)
    for peer in range(NUM_PEERS):
        assert parts.log_probability(peer) == pytest.approx(whole.log_probability(peer))


def test_peers_of_whom_nothing_is_known_are_equally_likely():
    nothing = np.zeros(0)
    rest = UnlistedPeers(np.arange(8), np.array([3]))
    chances = softmax_probabilities(nothing.astype(np.int64), nothing, 30.0, rest=rest)
    assert np.exp(chances.log_probability(5)) == pytest.approx(1 / 7)
    assert sorted(chances.sample(np.random.default_rng(0), 9)) == [0, 1, 2, 4, 5, 6, 7]


def test_softmax_draws_have_the_distribution_of_the_whole_list():
    """The exact one: p_i(j) · p_i(k) / (1 − p_i(j)) for first j, then k."""
    chances = softmax_probabilities(LISTED, np.array([0.05, -0.02]), 30.0, "zero", REST)
    p = np.exp([chances.log_probability(peer) for peer in range(NUM_PEERS)])
    times = 6000
    expected = [times * p[j] * p[k] / (1 - p[j]) for j, k in PAIRS]
    counts = count_pairs(lambda rng: chances.sample(rng, 2), times)
    assert chisquare(counts, expected).pvalue > UNLIKELY


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_kins_draws_have_the_distribution_of_the_whole_list(share):
    everyone = np.full(NUM_PEERS, share)
    everyone[LISTED] = [0.9, 0.1]
    peers = np.arange(NUM_PEERS)
    whole = count_pairs(lambda rng: sample_similar_first(rng, peers, everyone, 2), 6000)
    parts = count_pairs(
        lambda rng: sample_similar_first(rng, LISTED, everyone[LISTED], 2, REST, share), 6000
    )
    assert chi2_contingency([whole, parts]).pvalue > UNLIKELY


def test_all_others_are_listed_up_to_the_documented_size():
    for count in (MOST_LISTED, MOST_LISTED + 1):
        peers, rest = divide_others(me(np.arange(count), peer=7), np.array([3, 7, 9, 10**6]))
        is_small = count == MOST_LISTED
        assert len(rest) == (0 if is_small else count - 3)
        assert len(peers) == (count - 1 if is_small else 2)


def test_own_strategies_find_all_others_at_any_size():
    many = me(np.arange(MOST_LISTED + 5), peer=2)
    np.testing.assert_array_equal(many.others, np.delete(np.arange(MOST_LISTED + 5), 2))
    assert many.num_others == len(many.others)
    assert not any(value is many.others for value in vars(many).values())


def test_a_known_peer_is_preferred_to_thousands_of_others():
    """With τ·s far above ln K, DAC fetches the peer it knows, and others in the other places."""
    dac = DAC(fetches=3, tau=30.0)
    dac.table.record_scores({77: 1.0, 5: 0.9})
    probabilities = dac.sampling_probabilities(me(np.arange(50_000), peer=5, seed=3))
    assert isinstance(dac.table, SimilarityTable)
    assert probabilities.peers.tolist() == [77]
    for seed in range(20):
        first, *others = probabilities.sample(np.random.default_rng(seed), 3)
        assert first == 77
        assert len({77, 5, *others}) == 4
