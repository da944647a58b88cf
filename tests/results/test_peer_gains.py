"""Who gains and who is harmed: each peer by a paired test over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from coterie.results.peer_gains import compare_each_peer
from coterie.tasks.score import ACCURACY, MSE

RNG = np.random.default_rng(0)
ALONE = RNG.normal(0.5, 0.1, (5, 4))
GAINS = np.array([[0.1, -0.1, 0.0, 0.01]] * 5) + RNG.normal(0, 0.01, (5, 4)) * [1, 1, 0, 10]


def test_gains_by_hand():
    found = compare_each_peer(ALONE + GAINS, ALONE, ACCURACY)
    assert (found.num_peers, found.num_better, found.num_worse) == (4, 1, 1)
    assert found.mean == pytest.approx(GAINS.mean())
    assert found.share_worse == 0.25


def test_of_errors_the_lower_is_better():
    found = compare_each_peer(ALONE - GAINS, ALONE, MSE)
    assert (found.num_better, found.num_worse) == (1, 1)
    assert found.mean == pytest.approx(GAINS.mean())


def test_the_level_is_that_of_a_two_sided_paired_test():
    ours, alone = RNG.normal(0.05, 0.1, (6, 400)), np.zeros((6, 400))
    by_scipy = stats.ttest_rel(ours, alone)
    found = compare_each_peer(ours, alone, ACCURACY)
    significant = by_scipy.pvalue < 0.05
    assert found.num_better == (significant & (by_scipy.statistic > 0)).sum()
    assert found.num_worse == (significant & (by_scipy.statistic < 0)).sum()


def test_few_seeds_show_nothing():
    found = compare_each_peer(ALONE[:2] + 1, ALONE[:2], ACCURACY)
    assert (found.num_better, found.num_worse) == (0, 0)


def test_equal_gains_are_certain_and_peers_without_a_score_are_left_out():
    ours = np.full((3, 3), 0.5)
    ours[1, 2] = np.nan
    found = compare_each_peer(ours, np.array([[0.25, 0.5, 0.25]] * 3), ACCURACY)
    assert (found.num_peers, found.num_better, found.num_worse) == (2, 1, 0)
