"""Paired tests and their correction, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from coterie.results.statistics import Difference, correct_p_values, paired_difference


def with_p(p_value: float) -> Difference:
    return Difference(1.0, 0.1, p_value, 3)


def test_a_paired_difference_by_hand():
    """d = 1, 2, 3: mean 2, s = 1, t = 2·√3 with 2 degrees of freedom, p = 1 − t/√(t² + 2)."""
    found = paired_difference({0: 11.0, 1: 22.0, 2: 33.0}, {2: 30.0, 1: 20.0, 0: 10.0, 7: 1.0})
    t = 2 * math.sqrt(3)
    assert found.mean == pytest.approx(2)
    assert found.p_value == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    assert found.width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.num_pairs == 3


def test_what_seeds_have_in_common_does_not_count():
    """Data that are harder with one seed are so for both."""
    ours, baseline = {0: 1.0, 1: 1.4, 2: 1.3}, {0: 0.5, 1: 1.1, 2: 0.6}
    harder = {0: 0.0, 1: 100.0, 2: -50.0}
    shifted = [{s: v + harder[s] for s, v in each.items()} for each in (ours, baseline)]
    plain, moved = paired_difference(ours, baseline), paired_difference(*shifted)
    assert moved.p_value == pytest.approx(plain.p_value)
    assert moved.mean == pytest.approx(plain.mean)


def test_without_a_common_seed_there_is_no_difference():
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert paired_difference({0: 1.0, 1: math.nan}, {0: math.nan, 1: 1.0}) is None


def test_one_common_seed_is_no_test():
    found = paired_difference({0: 3.0, 1: 9.0}, {0: 1.0})
    assert (found.mean, found.num_pairs, found.mark) == (2.0, 1, "")
    assert math.isnan(found.p_value)
    assert correct_p_values({"a": found})["a"].mark == ""


def test_differences_without_spread():
    assert paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).p_value == 1.0
    assert paired_difference({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0}).p_value == 0.0


def test_holm_by_hand():
    """0.01·3, then 0.03·2, then 0.04·1, which may not fall below the one before."""
    found = correct_p_values({"a": with_p(0.04), "b": with_p(0.01), "c": with_p(0.03)})
    assert [found[label].corrected_p_value for label in "abc"] == pytest.approx([0.06, 0.03, 0.06])
    assert [found[label].mark for label in "abc"] == ["", "*", ""]


def test_holm_counts_only_what_was_tested():
    found = correct_p_values({"a": with_p(0.04), "b": with_p(math.nan)})
    assert found["a"].corrected_p_value == pytest.approx(0.04)
    assert math.isnan(found["b"].corrected_p_value)
    assert correct_p_values({"a": with_p(0.6), "b": with_p(0.7)})["a"].corrected_p_value == 1.0


@pytest.mark.parametrize(
    ("p_value", "mark"), [(0.06, ""), (0.04, "*"), (0.009, "**"), (0.0009, "***")]
)
def test_marks(p_value, mark):
    assert correct_p_values({"a": with_p(p_value)})["a"].mark == mark


@pytest.mark.parametrize(
    ("ours", "is_clear"),
    [([3, 4, 5], True), ([3, -4, 5], False), ([3], False), ([0, 0], False), ([1, 1], True)],
)
def test_a_difference_is_clear_if_its_interval_leaves_out_0(ours, is_clear):
    found = paired_difference(dict(enumerate(ours)), dict.fromkeys(range(len(ours)), 0))
    assert found.is_clear == is_clear
