"""Drift: the concept of each peer in each step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from coterie.data.drift import Drift, FedDrift2, FedDrift4, MatrixDrift, NoDrift, RandomDrift
from coterie.errors import ConfigError

FEW = settings(max_examples=40, deadline=None, derandomize=True)
PATTERN_2 = [
    "0000000000",
    "0000000000",
    "0000000000",
    "1100000000",
    "1111100000",
    "1111110000",
    "1111111100",
    "1111111100",
    "1111111111",
    "1111111111",
]
PATTERN_4 = [
    "0000000000",
    "0000000000",
    "1112220000",
    "1112220030",
    "2211222130",
    "2221232130",
    "2321133133",
    "3323133213",
    "3033313213",
    "0033312223",
]
STEPPED = [RandomDrift(every=20), FedDrift2(every=20), FedDrift4(every=20)]


def _text(rows):
    return ["".join(map(str, row)) for row in rows]


@pytest.mark.parametrize(
    ("drift", "pattern"),
    [(FedDrift2(every=200), PATTERN_2), (FedDrift4(every=200), PATTERN_4)],
    ids=["2", "4"],
)
def test_feddrift_patterns_over_twenty_peers(drift, pattern):
    steps = drift.num_steps(2000)
    assert steps == 10
    rows = drift.clusters(np.zeros(20, dtype=np.int64), steps, seed=0)
    assert _text(rows) == [row * 2 for row in pattern]
    assert all(row.dtype == np.int64 for row in rows)
    assert _text(drift.clusters(np.zeros(10, dtype=np.int64), 10, 5)) == pattern
    assert _text(drift.clusters(np.zeros(50, dtype=np.int64), 10, 5)) == [
        row * 5 for row in pattern
    ]


def test_feddrift_2_spreads_as_published():
    rows = FedDrift2(every=1).clusters(np.zeros(10, dtype=np.int64), 10, 0)
    assert [int(row.sum()) for row in rows] == [0, 0, 0, 2, 5, 6, 8, 8, 10, 10]


def test_patterns_start_where_they_say_whatever_the_clusters_were():
    start = np.arange(20) % 2
    (first, *_) = FedDrift4(every=5).clusters(start, 3, 0)
    assert first.tolist() == [0] * 20


def test_only_the_steps_that_are_reached_are_planned():
    drift = FedDrift4(every=200)
    assert drift.num_steps(600) == 3
    assert _text(drift.clusters(np.zeros(10, dtype=np.int64), 3, 0)) == PATTERN_4[:3]


@pytest.mark.parametrize("drift", STEPPED, ids=lambda drift: drift.kind)
def test_rounds_one_to_r_are_step_zero(drift):
    assert drift.step_of(0) == 0, "the initial training belongs to step 0"
    assert drift.step_of(1) == 0
    assert drift.step_of(20) == 0
    assert drift.step_of(21) == 1
    assert drift.step_of(40) == 1
    assert drift.step_of(41) == 2
    assert drift.step_of(200) == 9
    assert [drift.num_steps(rounds) for rounds in (0, 1, 20, 21, 40, 41)] == [1, 1, 1, 2, 2, 3]


def test_a_step_may_last_one_round():
    drift = RandomDrift(every=1)
    assert [drift.step_of(number) for number in range(5)] == [0, 0, 1, 2, 3]


def test_without_drift_nothing_ever_changes():
    start = np.array([0, 0, 1])
    assert {NoDrift().step_of(number) for number in (0, 1, 10, 10_000)} == {0}
    assert NoDrift().num_steps(10_000) == 1
    (only,) = NoDrift().clusters(start, 1, 0)
    assert only.tolist() == [0, 0, 1]


def test_the_last_row_stays():
    drift = MatrixDrift(every=3, matrix=((0, 1), (1, 0)))
    assert [drift.step_of(number) for number in (0, 3, 4, 6, 7, 100)] == [0, 0, 1, 1, 1, 1]
    assert drift.num_steps(100) == 2
    assert _text(drift.clusters(np.zeros(4, dtype=np.int64), 2, 0)) == ["0101", "1010"]
    assert FedDrift2(every=10).step_of(10_000) == 9
    assert FedDrift2(every=10).num_steps(10_000) == 10


def test_a_users_matrix_is_followed():
    matrix = ((0, 0, 0), (0, 1, 2), (2, 2, 1))
    rows = MatrixDrift(every=5, matrix=matrix).clusters(np.zeros(6, dtype=np.int64), 3, 0)
    assert [row.tolist() for row in rows] == [list(row) * 2 for row in matrix]


@pytest.mark.parametrize("matrix", [((0, 1), (0,)), ((),), ((), (1,))])
def test_rows_must_be_equally_long(matrix):
    with pytest.raises(ConfigError, match="same length"):
        MatrixDrift(every=5, matrix=matrix).clusters(np.zeros(2, dtype=np.int64), 1, 0)


def test_peers_must_be_a_multiple_of_the_columns():
    with pytest.raises(ConfigError, match="multiple of 10, but it is 25"):
        FedDrift4(every=5).clusters(np.zeros(25, dtype=np.int64), 2, 0)


@pytest.mark.parametrize(
    "settings_",
    [
        {"kind": "random"},
        {"kind": "random", "every": 0},
        {"kind": "matrix", "every": 5},
        {"kind": "matrix", "every": 5, "matrix": []},
        {"kind": "feddrift-3", "every": 5},
        {"kind": "none", "every": 5},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(settings_):
    with pytest.raises(ValidationError):
        TypeAdapter(Drift).validate_python(settings_)


@FEW
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any),
    steps=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_random_drift_keeps_the_number_of_peers_in_each_cluster(counts, steps, seed):
    start = np.repeat(np.arange(len(counts)), counts)
    rows = RandomDrift(every=10).clusters(start, steps, seed)
    assert len(rows) == steps
    assert rows[0].tolist() == start.tolist()
    for row in rows:
        assert np.bincount(row, minlength=len(counts)).tolist() == counts


def test_random_drift_moves_three_quarters_of_four_equal_clusters():
    start = np.repeat(np.arange(4), 25)
    rows = np.array(RandomDrift(every=10).clusters(start, 60, seed=1))
    moved = (rows[1:] != rows[:-1]).mean(axis=1)
    assert abs(moved.mean() - 0.75) < 0.02
    assert moved.min() > 0.55
    per_peer = (rows[1:] != rows[:-1]).mean(axis=0)
    assert per_peer.min() > 0.5, "no peer is left out"


def test_random_drift_depends_on_the_seed_alone():
    start = np.repeat(np.arange(4), 25)
    first, again, other = (
        np.array(RandomDrift(every=10).clusters(start, 5, seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first[1:] != other[1:]).any(axis=1).all()


def test_a_longer_run_starts_like_a_shorter_one():
    start = np.repeat(np.arange(4), 25)
    short, long = (np.array(RandomDrift(every=10).clusters(start, steps, 7)) for steps in (4, 8))
    np.testing.assert_array_equal(short, long[:4])
