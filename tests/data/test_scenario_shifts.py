"""Clusters and drift in a scenario: each peer learns and is tested on its present data."""

import numpy as np
import pytest
from scenarios import SWAP_LABELS, SWAPS, _dataset, _meaning, _read, _scenario

from coterie.data.drift import FedDrift2, FedDrift4, RandomDrift
from coterie.data.images import normalise, rotate
from coterie.data.labelled_dataset import Dataset
from coterie.data.partition import DirichletLabels
from coterie.data.shifts import DatasetShift, LabelShift, LabelSwapShift, RotationShift


def test_rotated_clusters_are_rotated_in_training_validation_and_test():
    angles = (0, 180, 90, 270)
    scenario = _scenario(RotationShift(angles=angles), clusters=(70, 20, 5, 5), count=20)
    views = scenario.load_step(0)
    assert np.bincount(scenario.clusters(0)).tolist() == [14, 4, 1, 1]
    for view, cluster in zip(views, scenario.clusters(0), strict=True):
        for part, mark in ((view.train, 7), (view.validation, 7), (view.test, 8)):
            _, shown, marks, targets = _read(scenario, part, angles[cluster])
            assert (marks == mark).all()
            np.testing.assert_array_equal(shown, targets)


def test_arbitrary_angles_rotate_normalised_images():
    pixels = np.random.default_rng(0).integers(0, 256, (80, 3, 12, 12), dtype=np.uint8)
    targets = np.arange(80) % 2
    source = Dataset("noise", pixels, targets, pixels[:20], targets[:20], ("a", "b"))
    scenario = _scenario(RotationShift(angles=(10, 350)), sources=[source], count=2)
    first, second = (
        scenario.pools[view.test.pool].inputs[view.test.rows()] for view in scenario.load_step(0)
    )
    np.testing.assert_array_equal(first, rotate(normalise(pixels[:20]), 10))
    np.testing.assert_array_equal(second, rotate(normalise(pixels[:20]), 350))
    assert (first[:, :, 0, 0] == 0).all(), "corners are mid-grey after normalising"


def test_everybody_is_tested_on_the_rotation_it_has_now():
    angles = (0, 90, 180, 270)
    scenario = _scenario(RotationShift(angles=angles), RandomDrift(every=10), rounds=40)
    moved = 0
    for step in range(4):
        views, clusters = scenario.load_step(step), scenario.clusters(step)
        moved += (clusters != scenario.clusters(0)).sum()
        for view, cluster in zip(views, clusters, strict=True):
            for part, mark in ((view.train, 7), (view.validation, 7), (view.test, 8)):
                assert (_read(scenario, part, angles[cluster])[2] == mark).all()
            assert len(view.test) == 80
    assert moved > 5


def test_everybody_is_tested_on_the_labels_it_has_now():
    groups = ((0, 1), (3, 4), (5, 7), (8, 9))
    scenario = _scenario(LabelShift(groups=groups), RandomDrift(every=10), rounds=30)
    assert scenario.clusters(1).tolist() != scenario.clusters(0).tolist()
    for step in (1, 2, 0):
        for view, cluster in zip(scenario.load_step(step), scenario.clusters(step), strict=True):
            for part in (view.train, view.test):
                _, shown, _, targets = _read(scenario, part)
                assert set(targets.tolist()) == set(groups[cluster])
                np.testing.assert_array_equal(shown, targets)
            assert len(view.test) == 16


def test_everybody_is_tested_on_the_dataset_it_has_now():
    sources = [_dataset(mark=mark, name=str(mark)) for mark in (10, 20, 30, 40)]
    scenario = _scenario(DatasetShift(), RandomDrift(every=200), sources, rounds=800, count=20)
    for step in range(4):
        seen = set()
        for view, cluster in zip(scenario.load_step(step), scenario.clusters(step), strict=True):
            mark = 10 * (cluster + 1)
            assert set(_read(scenario, view.train)[2].tolist()) == {mark}
            assert set(_read(scenario, view.validation)[2].tolist()) == {mark}
            assert set(_read(scenario, view.test)[2].tolist()) == {mark + 1}
            seen.add(view.test.pool)
        assert len(seen) == 4, "not all on one domain"


@pytest.mark.parametrize(
    ("drift", "swaps"), [(FedDrift2(every=2), SWAPS[:2]), (FedDrift4(every=2), SWAPS)]
)
def test_swapped_labels_follow_the_feddrift_patterns(drift, swaps):
    shift = LabelSwapShift(labels=SWAP_LABELS, swaps=swaps)
    scenario = _scenario(shift, drift, rounds=20, count=20, train_size=15)
    pattern = drift.rows()
    for round_number in range(21):
        step = scenario.step_of(round_number)
        assert step == max(round_number - 1, 0) // 2
        assert scenario.clusters(step).tolist() == [*pattern[step], *pattern[step]]
    for step in range(10):
        for view, cluster in zip(scenario.load_step(step), scenario.clusters(step), strict=True):
            for part in (view.train, view.validation, view.test):
                _, shown, _, targets = _read(scenario, part)
                assert set(shown.tolist()) <= set(SWAP_LABELS)
                np.testing.assert_array_equal(targets, _meaning(shift, cluster, shown))
            assert len(view.test) == 8 * len(SWAP_LABELS)


def test_mixed_datasets_have_their_labels_side_by_side():
    sources = [_dataset(mark=10, name="digits"), _dataset(mark=20, name="clothes")]
    scenario = _scenario(DatasetShift(label_offsets=(0, 10)), sources=sources)
    assert scenario.num_outputs == 20
    assert scenario.cluster_names == ("digits", "clothes")
    for view, cluster in zip(scenario.load_step(0), scenario.clusters(0), strict=True):
        for part in (view.train, view.validation, view.test):
            _, shown, _, targets = _read(scenario, part)
            np.testing.assert_array_equal(targets, shown + 10 * cluster)


def test_dirichlet_peers_are_tested_on_their_own_label_mix():
    source = _dataset(200, 100)
    scenario = _scenario(
        LabelSwapShift(swaps=((), ((0, 1),))),
        RandomDrift(every=1),
        [source],
        rounds=2,
        train_size=100,
        labels=DirichletLabels(alpha=0.5),
    )
    for step in (0, 1):
        distances = []
        for view, cluster in zip(scenario.load_step(step), scenario.clusters(step), strict=True):
            _, _, _, train = _read(scenario, view.train)
            numbers, shown, marks, test = _read(scenario, view.test)
            assert (marks == 8).all()
            np.testing.assert_array_equal(
                test, _meaning(LabelSwapShift(swaps=SWAPS), cluster, shown)
            )
            assert len(np.unique(numbers)) == len(test) == len(view.test)
            assert set(test.tolist()) == set(train.tolist())
            mix, tested = (np.bincount(part, minlength=10) / len(part) for part in (train, test))
            assert np.abs(mix - tested).max() < 0.03
            assert np.bincount(test).max() == 100, "as many as there are"
            distances.append(np.abs(mix - 0.1).sum())
        assert np.mean(distances) > 0.5


def test_however_few_test_images_every_peer_is_tested_on_labels_it_has():
    scenario = _scenario(
        sources=[_dataset(200, 20)], test_size=5, labels=DirichletLabels(alpha=0.01)
    )
    for view in scenario.load_step(0):
        _, _, _, train = _read(scenario, view.train)
        _, _, _, test = _read(scenario, view.test)
        assert len(test) > 0
        assert set(test.tolist()) <= set(train.tolist())


def test_concepts_that_look_alike_share_their_test_inputs():
    scenario = _scenario(LabelSwapShift(labels=SWAP_LABELS, swaps=SWAPS))
    tests = [view.test for view in scenario.load_step(0)[::2]]
    inputs = [scenario.pools[test.pool].inputs for test in tests]
    assert all(np.shares_memory(inputs[0], other) for other in inputs[1:])
    targets = [scenario.pools[test.pool].targets for test in tests]
    assert len({part.tobytes() for part in targets}) == 4
    assert [part.dtype for part in targets] == [np.dtype(np.int64)] * 4


def test_concepts_that_look_different_do_not_share_test_inputs():
    for shift in (
        RotationShift(angles=(0, 90)),
        LabelShift(groups=((0, 1), (1, 2))),
    ):
        scenario = _scenario(shift, count=2)
        first, second = (scenario.load_step(0)[peer].test.pool for peer in (0, -1))
        assert not np.shares_memory(scenario.pools[first].inputs, scenario.pools[second].inputs)


def test_peers_of_a_cluster_share_their_test_data():
    views = _scenario(RotationShift(angles=(0, 90))).load_step(0)
    assert {view.test for view in views[:4]} == {views[0].test}
    assert {view.test for view in views[4:]} == {views[-1].test}
    assert views[0].test != views[-1].test


@pytest.mark.parametrize(("test_size", "expected"), [(None, 80), (30, 30), (80, 80), (1000, 80)])
def test_test_data_may_be_limited(test_size, expected):
    scenario = _scenario(LabelSwapShift(swaps=SWAPS[:2]), test_size=test_size)
    for view in scenario.load_step(0):
        numbers, _, marks, _ = _read(scenario, view.test)
        assert len(np.unique(numbers)) == len(numbers) == expected
        assert (marks == 8).all()


def test_clusters_of_a_dataset_are_tested_on_the_same_limited_images():
    scenario = _scenario(RotationShift(angles=(0, 90)), test_size=10)
    views = scenario.load_step(0)
    first, second = _read(scenario, views[0].test)[0], _read(scenario, views[-1].test, 90)[0]
    np.testing.assert_array_equal(first, second)
