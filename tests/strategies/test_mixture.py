"""Two-class hard EM on scores, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.strategies.parts.mixture import find_similar


def found(neighbours: list[float], others: list[float]) -> list[float]:
    """Return the scores that come out as similar, starting from neighbours and others."""
    scores = np.array([*neighbours, *others])
    believed = np.arange(len(scores)) < len(neighbours)
    return sorted(scores[find_similar(scores, believed)].tolist())


def test_strangers_like_the_neighbours_are_found_and_the_others_are_not():
    assert found([9, 10, 11, 10.5, 9.5], [10.2, 9.8, 1, 2, 3]) == [9, 9.5, 9.8, 10, 10.2, 10.5, 11]


def test_neighbours_like_the_strangers_leave():
    assert found([10, 9, 11, 2, 3], [2, 1, 3, 1.5, 10]) == [9, 10, 10, 11]


def test_everybody_may_turn_out_to_be_similar():
    """A lone stranger amid the neighbours joins them: its class of one is not infinitely sure."""
    assert found([9, 10, 11, 10.5, 9.5], [10]) == [9, 9.5, 10, 10, 10.5, 11]


@pytest.mark.parametrize("seed", range(20))
def test_known_mixtures_are_told_apart(seed):
    """N(1, 0.1²) and N(0, 0.3²), the start half wrong: more than 19 of 20 are sorted right."""
    rng = np.random.default_rng(seed)
    is_similar = rng.random(200) < 0.4
    scores = np.where(is_similar, rng.normal(1, 0.1, 200), rng.normal(0, 0.3, 200))
    believed = np.where(rng.random(200) < 0.25, ~is_similar, is_similar)
    assert (find_similar(scores, believed) == is_similar).mean() > 0.95


def test_one_step_by_hand():
    """Neighbours {8, 10}, others {0, 2, 9}: by β·N(s; μ, σ²), 9 changes sides and nobody else.

    Neighbours: μ = 9, σ² = 1, but a tenth of the variance of all is 1.616. Others: μ = 11/3,
    σ² = 134/9. The worst neighbour is 8, the best of the others that stay is 2.
    """

    def gain(score: float) -> float:
        neighbour = np.log(2 / 5 / np.sqrt(1.616)) - (score - 9) ** 2 / (2 * 1.616)
        other = np.log(3 / 5 / np.sqrt(134 / 9)) - (score - 11 / 3) ** 2 / (2 * 134 / 9)
        return neighbour - other

    assert gain(8) > 0
    assert gain(9) > 0
    assert gain(2) < 0
    assert found([8, 10], [0, 2, 9]) == [8, 9, 10]


def test_scores_move_until_nobody_wants_to():
    """9 leaves and comes back, and 8 follows a step later: one step alone would miss them."""
    assert found([9, 12], [8, 0, 2, 11, 10, 1]) == [8, 9, 10, 11, 12]


def test_the_larger_class_is_the_likelier_one():
    """The share β counts: without it, 7 would join the class of 6 (μ = 6, σ² = 0.369).

    By the density alone, 7 has −1.24 as a neighbour (μ = 9, σ² = 8/3) and −0.86 as another; log β
    adds log 3/4 and log 1/4.
    """
    assert found([11, 7, 9], [6]) == [7, 9, 11]


def test_when_the_means_cross_the_better_ones_are_the_similar_ones():
    """After a shift my old neighbours may be the worse ones; the strangers take their place."""
    assert found([1, 2, 1.5], [10, 11, 9, 1]) == [9, 10, 11]


def test_nobody_is_too_similar():
    """20 is far out for the narrow neighbours, but the wide class of the others is below them."""
    assert 20 in found([10, 10.1, 9.9, 10, 10.1], [1, 2, 3, 4, 20])


def test_nobody_is_dissimilar_enough_to_be_similar_again():
    """−30 is far out for the narrow others, but the wide class of the neighbours is above them."""
    result = found([5, 15, 8, 12, 25], [2, 2.1, 1.9, 2.05, -30])
    assert -30 not in result
    assert {15, 12, 25} <= set(result)


def test_an_empty_class_of_neighbours_keeps_those_believed():
    """The only neighbour lies amid the strangers, who win it over: then it stays all the same."""
    assert found([5], [3, 4, 6, 7, 5.5, 4.5]) == [5]


def test_without_strangers_the_neighbours_stay():
    assert found([1, 5, 9], []) == [1, 5, 9]


def test_without_neighbours_nobody_is_found():
    assert found([], [1, 5, 9]) == []


def test_equal_scores_tell_nothing():
    assert find_similar(np.full(4, 0.5), np.array([True, False, True, False])).tolist() == [
        True, False, True, False,
    ]  # fmt: skip
    assert not find_similar(np.zeros(2), np.zeros(2, bool)).any()


def test_scores_that_are_no_numbers_change_nothing_and_are_not_found():
    rng = np.random.default_rng(0)
    scores = rng.normal([1] * 5 + [0] * 5, 0.1)
    believed = np.arange(10) < 3
    plain = find_similar(scores, believed)
    strange = np.array([np.nan, np.inf, -np.inf])
    mixed = find_similar(np.concatenate([strange, scores]), np.concatenate([[True] * 3, believed]))
    assert not mixed[:3].any()
    np.testing.assert_array_equal(mixed[3:], plain)
    assert not find_similar(strange, np.ones(3, bool)).any()


def test_huge_scores_do_not_overflow():
    assert found([1e300, 1.1e300], [1e12, -1e300, 1.05e300]) == [1e300, 1.05e300, 1.1e300]


# So small a score would vanish when scaled down: another question then, with another answer.
score = st.floats(-1e3, 1e3).map(lambda value: value if abs(value) > 1e-200 else 0.0)
scores_and_start = st.lists(st.tuples(score, st.booleans()), min_size=1, max_size=20)


@given(scores_and_start, st.sampled_from([2.0**-60, 0.5, 2.0**60]))
def test_the_better_class_wins_at_any_scale(pairs, scale):
    scores = np.array([score for score, _ in pairs])
    believed = np.array([is_believed for _, is_believed in pairs])
    similar = find_similar(scores, believed)
    np.testing.assert_array_equal(find_similar(scores * scale, believed), similar)
    if believed.any():
        assert similar.any()
    if scores.min() < scores.max() and (similar != believed).any() and not similar.all():
        assert scores[similar].mean() > scores[~similar].mean()
