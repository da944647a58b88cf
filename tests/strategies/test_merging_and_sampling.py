"""What strategies are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.strategies.parts.merging import federated_average, normalise
from coterie.strategies.parts.sampling import sample_uniformly
from coterie.strategies.requests import Offer
from coterie.strategies.strategy import GroundTruth, Me


def me(num_samples: int = 30) -> Me:
    return Me(0, 1, np.arange(5), num_samples, np.random.default_rng(0))


def test_federated_average_by_hand():
    """w_i ← Σ (n_k / Σ n) w_k with my own model included."""
    weights = federated_average(me(30), [Offer(3, 60, {}), Offer(1, 10, {})])
    assert weights == {0: 0.3, 3: 0.6, 1: 0.1}


def test_nobody_answered_leaves_my_own_model():
    assert federated_average(me(), []) == {0: 1.0}


@given(st.dictionaries(st.integers(0, 99), st.floats(1e-6, 1e9), min_size=1))
def test_normalised_amounts_sum_to_one_and_keep_their_proportions(amounts):
    weights = normalise(amounts)
    assert sum(weights.values()) == pytest.approx(1.0)
    first = next(iter(amounts))
    for peer, amount in amounts.items():
        assert weights[peer] * amounts[first] == pytest.approx(weights[first] * amount, rel=1e-6)


@given(st.sets(st.integers(0, 10**6), max_size=40), st.integers(0, 50), st.integers(0, 2**32))
def test_uniform_draws_distinct_candidates(candidates, count, seed):
    known = np.array(sorted(candidates), dtype=np.int64)
    chosen = sample_uniformly(np.random.default_rng(seed), known, count)
    assert len(set(chosen)) == len(chosen) == min(count, len(candidates))
    assert set(chosen) <= candidates
    assert all(type(peer) is int for peer in chosen)


def test_uniform_is_uniform():
    rng = np.random.default_rng(0)
    counts = np.zeros(10)
    for _ in range(5000):
        counts[list(sample_uniformly(rng, np.arange(10), 3))] += 1
    assert np.abs(counts - 1500).max() < 5 * np.sqrt(1500 * 0.7)


def test_true_cluster_is_that_of_the_very_peer():
    truth = GroundTruth(np.array([0, 1, 0, 1, 0]))
    assert truth.members(0).tolist() == [2, 4]
    assert truth.members(3).tolist() == [1]
    assert Me(3, 1, np.arange(5), 1, np.random.default_rng(0), truth).true_cluster.tolist() == [1]


def test_others_never_include_me():
    assert me().others.tolist() == [1, 2, 3, 4]
    newcomer = Me(9, 1, np.array([4, 7]), 1, np.random.default_rng(0))
    assert newcomer.others.tolist() == [4, 7]
