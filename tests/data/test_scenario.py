"""Scenarios: what every peer holds in every step, down to the pixel."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from coterie.config import make_scenario, parse
from coterie.data.dataset import Dataset
from coterie.data.drift import FedDrift2, FedDrift4, MatrixDrift, RandomDrift
from coterie.data.images import normalise, rotate
from coterie.data.partition import DirichletLabels, ListedSizes, SkewedSizes
from coterie.data.pools import Samples
from coterie.data.scenario import CHUNK, PeerSettings, Scenario
from coterie.data.shifts import (
    Concept,
    DatasetShift,
    LabelShift,
    LabelSwapShift,
    NoShift,
    RotationShift,
)
from coterie.data.synthetic import linear_regression
from coterie.data.world import World
from coterie.errors import ConfigError, DataError

FEW = settings(max_examples=25, deadline=None, derandomize=True)
SWAP_LABELS = (0, 1, 3, 4, 5, 7, 8, 9)
SWAPS = ((), ((0, 1),), ((3, 4),), ((5, 7),))


def _dataset(per_label=60, test_per_label=8, num_labels=10, mark=7, name="marks"):
    """Images of 2×2 pixels that tell who they are: number (two digits), label, and where from.

    The mark is at the lower right; it is one higher in test images.
    """

    def make(count, mark):
        targets = np.random.default_rng(mark).permutation(np.arange(num_labels).repeat(count))
        number = np.arange(len(targets))
        pixels = [number // 256, number % 256, targets, np.full_like(number, mark)]
        return np.stack(pixels, axis=1).astype(np.uint8).reshape(-1, 1, 2, 2), targets

    train, test = make(per_label, mark), make(test_per_label, mark + 1)
    return Dataset(name, *train, *test, classes=tuple(map(str, range(num_labels))))


def _scenario(shift=None, drift=None, sources=None, rounds=0, seed=0, **peers):
    sources = sources or [_dataset()]
    peers = {"count": 8, "train_size": 20, "validation_size": 5} | peers
    concepts = (shift or NoShift()).concepts(sources, seed)
    return Scenario(sources, concepts, PeerSettings(**peers), drift, rounds=rounds, seed=seed)


def _read(scenario, samples, angle=0):
    """Return (numbers, labels shown, marks, targets) of samples, after turning them back."""
    pool, rows = scenario.pools[samples.pool], samples.rows()
    upright = np.rot90(pool.inputs[rows], -angle // 90, axes=(2, 3))
    pixels = np.rint((upright + 1) * 127.5).astype(np.int64).reshape(-1, 4)
    return pixels[:, 0] * 256 + pixels[:, 1], pixels[:, 2], pixels[:, 3], pool.targets[rows]


def _numbers(scenario, peer, angle=0):
    """Return the numbers of all private images of a peer."""
    return np.concatenate(
        [_read(scenario, part, angle)[0] for part in (peer.train, peer.validation)]
    )


def _contents(scenario, step):
    """Everything a scenario holds in a step, as bytes."""
    views = scenario.enter(step)
    return [
        (pool.inputs[part.rows()].tobytes(), pool.targets[part.rows()].tobytes())
        for view in views
        for part in (view.train, view.validation, view.test)
        for pool in [scenario.pools[part.pool]]
    ]


def test_a_scenario_is_a_world():
    scenario = _scenario(LabelShift(groups=((0, 1), (2, 3))))
    assert isinstance(scenario, World)
    assert scenario.num_peers == 8
    assert scenario.input_shape == (1, 2, 2)
    assert scenario.num_outputs == 10
    assert scenario.is_classification
    assert len(scenario.cluster_names) == 2
    assert scenario.step_of(10_000) == 0
    assert scenario.clusters(0).tolist() == [0] * 4 + [1] * 4
    with pytest.raises(TypeError, match="abstract"):
        World()


def test_images_are_normalised_once_into_float32():
    scenario = _scenario()
    (view, *_) = scenario.enter(0)
    pool = scenario.pools[view.train.pool]
    assert pool.inputs.dtype == np.float32
    assert pool.targets.dtype == np.int64
    numbers, *_ = _read(scenario, view.train)
    np.testing.assert_allclose(
        pool.inputs[view.train.rows()],
        (_dataset().inputs[numbers] / 255 - 0.5) / 0.5,
        atol=1e-6,
    )


def test_peers_hold_views_of_one_pool_that_do_not_overlap():
    scenario = _scenario(
        RotationShift(angles=(0, 90, 180)), sizes=SkewedSizes(exponent=1.0), train_size=30
    )
    parts = [part for view in scenario.enter(0) for part in (view.train, view.validation)]
    assert {part.pool for part in parts} == {0}
    rows = np.concatenate([part.rows() for part in parts])
    assert sorted(rows) == list(range(len(scenario.pools[0].inputs)))
    assert all(part.chosen is None and len(part) == part.stop - part.start for part in parts)


def test_a_view_may_pick_rows():
    assert Samples(0, 3, 6).rows().tolist() == [3, 4, 5]
    assert len(Samples(0, 3, 6)) == 3
    picked = Samples(0, 3, 9, np.array([4, 8]))
    assert picked.rows().tolist() == [4, 8]
    assert len(picked) == 2


def test_the_private_pool_is_as_large_as_what_the_peers_hold():
    scenario = _scenario(
        drift=RandomDrift(every=5),
        rounds=20,
        count=3,
        sizes=ListedSizes(listed=(5, 1, 80)),
        validation_size=10,
    )
    assert len(scenario.pools[0].inputs) == len(scenario.pools[0].targets) == 86 + 30
    for step in range(4):
        views = scenario.enter(step)
        assert [len(view.train) for view in views] == [5, 1, 80]
        assert [len(view.validation) for view in views] == [10, 10, 10]
        assert max(view.validation.stop for view in views) == 116


def test_many_images_are_filled_chunk_by_chunk():
    per_label = CHUNK // 4
    scenario = _scenario(
        RotationShift(angles=(90,)),
        sources=[_dataset(per_label)],
        count=5,
        train_size=CHUNK // 2 - 30,
    )
    views = scenario.enter(0)
    numbers = np.concatenate([_numbers(scenario, view, 90) for view in views])
    assert len(numbers) == 5 * (CHUNK // 2 - 25) > 2 * CHUNK
    assert len(np.unique(numbers)) == len(numbers)
    for view in views:
        _, shown, marks, targets = _read(scenario, view.train, 90)
        assert (marks == 7).all()
        np.testing.assert_array_equal(shown, targets)


@FEW
@given(
    shift=st.sampled_from(
        [
            NoShift(),
            RotationShift(angles=(0, 90, 180, 270)),
            LabelShift(groups=((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))),
            LabelSwapShift(swaps=SWAPS),
        ]
    ),
    count=st.integers(1, 12),
    train=st.integers(1, 20),
    validation=st.integers(1, 5),
    alpha=st.sampled_from([None, 0.05, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_an_image_belongs_to_one_peer_in_every_step(shift, count, train, validation, alpha, seed):
    options = {} if alpha is None else {"labels": DirichletLabels(alpha=alpha)}
    scenario = _scenario(
        shift,
        RandomDrift(every=1),
        rounds=3,
        seed=seed,
        count=count,
        train_size=train,
        validation_size=validation,
        **options,
    )
    angles = getattr(shift, "angles", (0, 0, 0, 0))
    for step in range(3):
        views, clusters = scenario.enter(step), scenario.clusters(step)
        numbers = [
            _numbers(scenario, view, angles[cluster])
            for view, cluster in zip(views, clusters, strict=True)
        ]
        together = np.concatenate(numbers)
        assert len(np.unique(together)) == len(together) == count * (train + validation)
        for view, cluster in zip(views, clusters, strict=True):
            _, shown, marks, targets = _read(scenario, view.train, angles[cluster])
            assert (marks == 7).all()
            assert (targets == _meaning(shift, cluster, shown)).all()
            if isinstance(shift, LabelShift):
                assert set(targets.tolist()) <= set(shift.groups[cluster])


def _meaning(shift, cluster, shown):
    meaning = np.arange(10)
    for first, second in getattr(shift, "swaps", ((),) * 9)[cluster]:
        meaning[[first, second]] = second, first
    return meaning[shown]


def test_rotated_clusters_are_rotated_in_training_validation_and_test():
    angles = (0, 180, 90, 270)
    scenario = _scenario(RotationShift(angles=angles), clusters=(70, 20, 5, 5), count=20)
    views = scenario.enter(0)
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
        scenario.pools[view.test.pool].inputs[view.test.rows()] for view in scenario.enter(0)
    )
    np.testing.assert_array_equal(first, rotate(normalise(pixels[:20]), 10))
    np.testing.assert_array_equal(second, rotate(normalise(pixels[:20]), 350))
    assert (first[:, :, 0, 0] == 0).all(), "corners are mid-grey after normalising"


def test_everybody_is_tested_on_the_rotation_it_has_now():
    angles = (0, 90, 180, 270)
    scenario = _scenario(RotationShift(angles=angles), RandomDrift(every=10), rounds=40)
    moved = 0
    for step in range(4):
        views, clusters = scenario.enter(step), scenario.clusters(step)
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
        for view, cluster in zip(scenario.enter(step), scenario.clusters(step), strict=True):
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
        for view, cluster in zip(scenario.enter(step), scenario.clusters(step), strict=True):
            mark = 10 * (cluster + 1)
            assert set(_read(scenario, view.train)[2].tolist()) == {mark}
            assert set(_read(scenario, view.validation)[2].tolist()) == {mark}
            assert set(_read(scenario, view.test)[2].tolist()) == {mark + 1}
            seen.add(view.test.pool)
        assert len(seen) == 4, "not everybody on one domain"


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
        for view, cluster in zip(scenario.enter(step), scenario.clusters(step), strict=True):
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
    for view, cluster in zip(scenario.enter(0), scenario.clusters(0), strict=True):
        for part in (view.train, view.validation, view.test):
            _, shown, _, targets = _read(scenario, part)
            np.testing.assert_array_equal(targets, shown + 10 * cluster)


def test_data_are_fresh_in_every_step_even_for_those_who_stay():
    scenario = _scenario(
        LabelSwapShift(labels=SWAP_LABELS, swaps=SWAPS), FedDrift4(every=1), rounds=10, count=20,
        train_size=15,
    )  # fmt: skip
    assert scenario.clusters(0).tolist() == scenario.clusters(1).tolist()
    before = [set(_numbers(scenario, view).tolist()) for view in scenario.enter(0)]
    for step in range(1, 10):
        now = [set(_numbers(scenario, view).tolist()) for view in scenario.enter(step)]
        kept = [len(old & new) / len(old) for old, new in zip(before, now, strict=True)]
        assert np.mean(kept) < 0.15, "hardly more than chance"
        before = now


def test_a_step_can_be_entered_again():
    scenario = _scenario(
        RotationShift(angles=(0, 90)),
        RandomDrift(every=1),
        rounds=3,
        labels=DirichletLabels(alpha=1),
    )
    first = _contents(scenario, 1)
    assert _contents(scenario, 2) != first
    assert _contents(scenario, 1) == first


def test_as_many_steps_as_the_rounds_reach():
    scenario = _scenario(RotationShift(angles=(0, 90)), RandomDrift(every=10), rounds=20)
    assert scenario.step_of(20) == 1
    assert len(scenario.enter(1)) == 8
    with pytest.raises(IndexError):
        scenario.enter(2)


@pytest.mark.parametrize(
    "peers",
    [
        {},
        {"labels": DirichletLabels(alpha=0.5)},
        {"sizes": SkewedSizes(exponent=1.0)},
        {"test_size": 30},
    ],
    ids=str,
)
def test_the_seed_decides_everything(peers):
    options = {"shift": RotationShift(angles=(0, 90)), "drift": RandomDrift(every=1), "rounds": 2}
    first, again, other = (_scenario(**options, seed=seed, **peers) for seed in (1, 1, 2))
    for step in (0, 1):
        assert _contents(first, step) == _contents(again, step)
        assert _contents(first, step) != _contents(other, step)


def test_each_random_choice_depends_on_the_seed():
    sizes, tests, splits = set(), set(), set()
    for seed in range(5):
        scenario = _scenario(seed=seed, sizes=SkewedSizes(exponent=2.0), test_size=10)
        views = scenario.enter(0)
        sizes.add(tuple(len(view.train) for view in views))
        tests.add(tuple(_read(scenario, views[0].test)[0]))
        splits.add(tuple(_numbers(scenario, views[0])))
    assert len(sizes) == len(tests) == len(splits) == 5


def test_global_generators_neither_matter_nor_move():
    options = {
        "shift": RotationShift(angles=(0, 90)),
        "drift": RandomDrift(every=1),
        "rounds": 2,
        "labels": DirichletLabels(alpha=0.5),
        "sizes": SkewedSizes(exponent=1.0),
        "test_size": 40,
    }
    contents = []
    for seed in (0, 1):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
        contents.append(_contents(_scenario(**options), 1))
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert contents[0] == contents[1]


def test_strategies_see_the_very_same_data():
    contents = [
        _contents(
            make_scenario(
                parse(
                    {
                        "shift": {"kind": "rotation", "angles": [0, 90]},
                        "drift": {"kind": "random", "every": 5},
                        "peers": {"count": 6, "train_size": 20, "validation_size": 10},
                        "strategy": {"name": name},
                        "rounds": 10,
                        "seed": 3,
                    }
                )
            ),
            1,
        )
        for name in ("local", "random", "oracle")
    ]
    assert contents[0] == contents[1] == contents[2]


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
        for view, cluster in zip(scenario.enter(step), scenario.clusters(step), strict=True):
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
    for view in scenario.enter(0):
        _, _, _, train = _read(scenario, view.train)
        _, _, _, test = _read(scenario, view.test)
        assert len(test) > 0
        assert set(test.tolist()) <= set(train.tolist())


def test_concepts_that_look_alike_share_their_test_inputs():
    scenario = _scenario(LabelSwapShift(labels=SWAP_LABELS, swaps=SWAPS))
    tests = [view.test for view in scenario.enter(0)[::2]]
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
        first, second = (scenario.enter(0)[peer].test.pool for peer in (0, -1))
        assert not np.shares_memory(scenario.pools[first].inputs, scenario.pools[second].inputs)


def test_peers_of_a_cluster_share_their_test_data():
    views = _scenario(RotationShift(angles=(0, 90))).enter(0)
    assert {view.test for view in views[:4]} == {views[0].test}
    assert {view.test for view in views[4:]} == {views[-1].test}
    assert views[0].test != views[-1].test


@pytest.mark.parametrize(("test_size", "expected"), [(None, 80), (30, 30), (80, 80), (1000, 80)])
def test_test_data_may_be_limited(test_size, expected):
    scenario = _scenario(LabelSwapShift(swaps=SWAPS[:2]), test_size=test_size)
    for view in scenario.enter(0):
        numbers, _, marks, _ = _read(scenario, view.test)
        assert len(np.unique(numbers)) == len(numbers) == expected
        assert (marks == 8).all()


def test_clusters_of_a_dataset_are_tested_on_the_same_limited_images():
    scenario = _scenario(RotationShift(angles=(0, 90)), test_size=10)
    views = scenario.enter(0)
    first, second = _read(scenario, views[0].test)[0], _read(scenario, views[-1].test, 90)[0]
    np.testing.assert_array_equal(first, second)


def test_regression_keeps_its_values():
    sources = [linear_regression(cluster, 0, 200, 50) for cluster in range(3)]
    scenario = _scenario(
        DatasetShift(), sources=sources, count=6, labels=DirichletLabels(alpha=0.1)
    )
    assert not scenario.is_classification
    assert scenario.num_outputs == 1
    assert scenario.input_shape == (10,)
    for view, cluster in zip(scenario.enter(0), scenario.clusters(0), strict=True):
        test = scenario.pools[view.test.pool]
        assert test.targets.dtype == np.float32
        np.testing.assert_array_equal(test.inputs[view.test.rows()], sources[cluster].test_inputs)
        np.testing.assert_array_equal(test.targets[view.test.rows()], sources[cluster].test_targets)
        values = scenario.pools[0].targets[view.train.rows()]
        assert np.isin(values, sources[cluster].targets).all()


@pytest.mark.parametrize(
    ("drift", "concept"),
    [
        (MatrixDrift(every=5, matrix=((0, 1), (2, 0))), 2),
        (MatrixDrift(every=5, matrix=((0, 1), (-1, 0))), -1),
        (FedDrift4(every=5), 2),
    ],
)
def test_drift_cannot_ask_for_concepts_that_do_not_exist(drift, concept):
    with pytest.raises(ConfigError, match=f"concept {concept}, but the shift makes only 2"):
        _scenario(RotationShift(angles=(0, 90)), drift, rounds=50, count=10)


def test_only_images_can_be_rotated():
    source = linear_regression(0, 0, 200, 20)
    with pytest.raises(ConfigError, match=r"rotation needs images.*\(10,\)"):
        _scenario(RotationShift(angles=(0, 90)), sources=[source], count=2)


def test_datasets_of_one_scenario_must_fit_together():
    oblong, labels = np.zeros((9, 1, 2, 3), np.uint8), np.zeros(9, np.int64)
    wide = Dataset("wide", oblong, labels, oblong, labels, ("a",))
    with pytest.raises(ConfigError, match=r"one shape.*marks, wide"):
        _scenario(DatasetShift(), sources=[_dataset(), wide])
    square, numbers = np.zeros((9, 1, 2, 2), np.float32), np.zeros(9, np.float32)
    values = Dataset("values", square, numbers, square, numbers)
    with pytest.raises(ConfigError, match=r"one kind of target.*marks, values"):
        _scenario(DatasetShift(), sources=[_dataset(), values])


def test_labels_without_images_are_refused():
    with pytest.raises(DataError, match="label 12"):
        _scenario(LabelShift(groups=((0, 1), (12,))))


def test_too_few_images_are_refused():
    with pytest.raises(DataError, match=r"8 peers ask for 840 images of marks.*only 600"):
        _scenario(train_size=100)


def test_shares_must_fit_the_clusters():
    with pytest.raises(ConfigError, match=r"3 shares.*2 clusters"):
        _scenario(RotationShift(angles=(0, 90)), clusters=(1, 1, 1))


@pytest.mark.parametrize("shares", [(0, 0), (3, -1), (float("inf"), 1), (float("nan"), 1)])
def test_shares_that_cannot_be_shares_are_refused(shares):
    with np.errstate(all="ignore"), pytest.raises((ConfigError, ValidationError), match="clusters"):
        _scenario(RotationShift(angles=(0, 90)), clusters=shares)


def test_labels_cannot_be_grouped_where_there_are_none():
    source = linear_regression(0, 0, 200, 20)
    concepts = [Concept("a", labels=(0, 1)), Concept("b", labels=(2, 3))]
    with pytest.raises((ConfigError, DataError), match="linear-0"):
        Scenario([source], concepts, PeerSettings(count=2, train_size=5, validation_size=5))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"train_size": 0}, {"validation_size": 0},
                                   {"test_size": 0}, {"sise": 3}], ids=str)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ValidationError):
        PeerSettings(**({"count": 8, "train_size": 20, "validation_size": 5} | wrong))
