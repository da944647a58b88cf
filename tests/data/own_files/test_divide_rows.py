"""Each peer's rows are divided: at random, or by windows of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.data.own_files.divide_rows import divide_at_random, divide_by_time
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.errors import DataError


def samples(
    counts: dict[str, int], *, has_time: bool = False, num_classes: int = 2
) -> OwnedSamples:
    rng = np.random.default_rng(1)
    total = sum(counts.values())
    owners = rng.permutation(np.repeat(np.arange(len(counts)), list(counts.values())))
    return OwnedSamples(
        where="farms.csv",
        inputs=np.zeros((total, 1), np.float32),
        targets=rng.integers(num_classes, size=total),
        classes=tuple(str(number) for number in range(num_classes)),
        owners=owners,
        peer_names=tuple(counts),
        times=rng.permutation(total) if has_time else None,
    )


def test_each_row_of_a_peer_is_in_one_part_and_parts_are_60_20_20():
    data = samples({"a": 100, "b": 45})
    division = divide_at_random(data, 20, seed=0)
    for peer, size in enumerate((100, 45)):
        part = division.steps[0][peer]
        rows = np.concatenate([part.train, part.validation, part.test])
        assert sorted(rows) == np.flatnonzero(data.owners == peer).tolist()
        assert [len(part.train), len(part.validation), len(part.test)] == [
            size * 3 // 5,
            size // 5,
            size // 5,
        ]


def test_each_class_is_divided_in_the_same_proportions():
    data = samples({"a": 200}, num_classes=4)
    part = divide_at_random(data, 20, seed=0).steps[0][0]
    for label in range(4):
        count = (data.targets == label).sum()
        assert abs((data.targets[part.train] == label).sum() - 0.6 * count) <= 2
        assert abs((data.targets[part.test] == label).sum() - 0.2 * count) <= 1


def test_little_training_data_has_all_classes():
    data = samples({"a": 200}, num_classes=4)
    few = divide_at_random(data, 20, seed=0, most_training=8).steps[0][0]
    every = divide_at_random(data, 20, seed=0).steps[0][0]
    assert set(few.train) < set(every.train)
    assert len(few.train) == 8
    assert set(data.targets[few.train]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(few.test, every.test)


def test_a_peer_keeps_its_parts_if_another_has_left():
    both = divide_at_random(samples({"a": 50, "b": 10}), 20, seed=3)
    assert both.peers.tolist() == [0]
    assert both.notes == ("1 peer with fewer than 20 rows left out: b.",)
    more = divide_at_random(samples({"a": 50, "b": 10}), 5, seed=3)
    np.testing.assert_array_equal(both.steps[0][0].train, more.steps[0][0].train)


def test_another_seed_gives_other_parts_of_the_same_sizes():
    parts = [divide_at_random(samples({"a": 48}), 20, seed=seed).steps[0][0] for seed in (0, 1)]
    assert set(parts[0].train) != set(parts[1].train)
    assert len(parts[0].train) == len(parts[1].train)


def test_if_no_peer_has_enough_rows_the_limit_is_named():
    with pytest.raises(DataError, match=r"all 2 peers have fewer than 20 rows.*--min-rows"):
        divide_at_random(samples({"a": 5, "b": 19}), 20, seed=0)


def test_peers_train_on_a_window_and_are_tested_on_the_next():
    data = samples({"a": 120, "b": 130}, has_time=True)
    division = divide_by_time(data, 4, 10)
    assert len(division.steps) == 3
    edges = []
    for step in division.steps:
        trained = max(data.times[part.validation].max() for part in step)
        tested = min(data.times[part.test].min() for part in step)
        assert trained < tested, "windows are common to all peers"
        for part in step:
            assert data.times[part.train].max() < data.times[part.validation].min()
            assert len(part.validation) == round((len(part.train) + len(part.validation)) / 5)
        edges.append(tested)
    assert edges == sorted(edges)
    for now, later in zip(division.steps, division.steps[1:], strict=False):
        for peer in range(2):
            fresh = np.concatenate([later[peer].train, later[peer].validation])
            np.testing.assert_array_equal(now[peer].test, fresh)


def test_rows_of_the_same_time_are_in_the_same_window():
    data = samples({"a": 100, "b": 100}, has_time=True)
    data = replace(data, times=data.times // 20)
    for step in divide_by_time(data, 3, 2).steps:
        for part in step:
            assert data.times[part.validation].max() < data.times[part.test].min()


def test_peers_that_are_absent_in_a_window_are_left_out():
    data = samples({"a": 100, "b": 100}, has_time=True)
    times = data.times.copy()
    times[data.owners == 1] = np.arange(100)
    times[data.owners == 0] = np.linspace(0, 400, 100).astype(np.int64)
    division = divide_by_time(replace(data, times=times), 4, 10)
    assert division.peers.tolist() == [0]
    assert "in one of 4 windows of time left out: b." in division.notes[0]


def test_too_few_times_for_the_windows_are_refused():
    data = samples({"a": 100}, has_time=True)
    with pytest.raises(DataError, match="3 different times, too few for 10 windows"):
        divide_by_time(replace(data, times=data.times % 3), 10, 10)
