"""What every peer of a scenario holds in every step, and that the seed alone decides it."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import SWAP_LABELS, SWAPS, _contents, _dataset, _meaning, _numbers, _read, _scenario

from coterie.data.drift import FedDrift4, RandomDrift
from coterie.data.partition import DirichletLabels, ListedSizes, SkewedSizes
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import Samples
from coterie.data.scenario import CHUNK
from coterie.data.shifts import DatasetShift, LabelShift, LabelSwapShift, NoShift, RotationShift
from coterie.data.synthetic import linear_regression
from coterie.experiments.config import make_scenario, parse_config

FEW = settings(max_examples=25, deadline=None, derandomize=True)


def test_a_scenario_is_a_world():
    scenario = _scenario(LabelShift(groups=((0, 1), (2, 3))))
    assert isinstance(scenario, PeerDatasets)
    assert scenario.num_peers == 8
    assert scenario.input_shape == (1, 2, 2)
    assert scenario.num_outputs == 10
    assert scenario.is_classification
    assert len(scenario.cluster_names) == 2
    assert scenario.step_of(10_000) == 0
    assert scenario.clusters(0).tolist() == [0] * 4 + [1] * 4
    with pytest.raises(TypeError, match="abstract"):
        PeerDatasets()


def test_images_are_normalised_once_into_float32():
    scenario = _scenario()
    (view, *_) = scenario.load_step(0)
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
    parts = [part for view in scenario.load_step(0) for part in (view.train, view.validation)]
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
        views = scenario.load_step(step)
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
    views = scenario.load_step(0)
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
        views, clusters = scenario.load_step(step), scenario.clusters(step)
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


def test_data_are_fresh_in_every_step_even_for_those_who_stay():
    scenario = _scenario(
        LabelSwapShift(labels=SWAP_LABELS, swaps=SWAPS), FedDrift4(every=1), rounds=10, count=20,
        train_size=15,
    )  # fmt: skip
    assert scenario.clusters(0).tolist() == scenario.clusters(1).tolist()
    before = [set(_numbers(scenario, view).tolist()) for view in scenario.load_step(0)]
    for step in range(1, 10):
        now = [set(_numbers(scenario, view).tolist()) for view in scenario.load_step(step)]
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
    assert len(scenario.load_step(1)) == 8
    with pytest.raises(IndexError):
        scenario.load_step(2)


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
        views = scenario.load_step(0)
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
                parse_config(
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


def test_regression_keeps_its_values():
    sources = [linear_regression(cluster, 0, 200, 50) for cluster in range(3)]
    scenario = _scenario(
        DatasetShift(), sources=sources, count=6, labels=DirichletLabels(alpha=0.1)
    )
    assert not scenario.is_classification
    assert scenario.num_outputs == 1
    assert scenario.input_shape == (10,)
    for view, cluster in zip(scenario.load_step(0), scenario.clusters(0), strict=True):
        test = scenario.pools[view.test.pool]
        assert test.targets.dtype == np.float32
        np.testing.assert_array_equal(test.inputs[view.test.rows()], sources[cluster].test_inputs)
        np.testing.assert_array_equal(test.targets[view.test.rows()], sources[cluster].test_targets)
        values = scenario.pools[0].targets[view.train.rows()]
        assert np.isin(values, sources[cluster].targets).all()
