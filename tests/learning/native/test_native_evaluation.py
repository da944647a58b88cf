"""Compiled evaluation against torch's; and rows, labels and data that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_bench import (
    DIGITS_LIKE,
    NativeBench,
    chain,
    chains,
    digits_like,
    image_pool,
    tiled_chains,
)
from networks import few
from torch import nn
from torch_bench import Bench

from coterie.data.pools import Pool, Samples
from coterie.errors import ConfigError, TrainingError
from coterie.learning.trainer import EvaluateJob, ModelReference


def perceptron(num_classes: int = 3) -> nn.Module:
    return chain(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, num_classes))


def assert_same_evaluation(ours, theirs, *, size=1.0):
    """Losses are differences of scores, so their rounding errors are of the scores' size."""
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-4, atol=2e-6 * max(size, 1))
    assert ours.score == pytest.approx(theirs.score, rel=1e-4)


@given(chains() | tiled_chains(), st.integers(1, 40), st.integers(0, 2**16))
@few(60)
def test_losses_and_correctness_of_any_chain(drawn, count, seed):
    module, shape, num_classes = drawn
    pool = image_pool(count, shape, num_classes, seed=seed)
    regression = num_classes is None
    ours = NativeBench(lambda: module, pool, regression=regression).evaluate()
    assert_same_evaluation(ours, Bench(lambda: module, pool, regression=regression).evaluate())


@pytest.mark.parametrize("count", [*range(1, 10), 15, 16, 17, 40])
def test_every_number_of_samples(count):
    """Samples are computed in groups of eight, and the last group may have any size."""
    pool = image_pool(count, DIGITS_LIKE, 4, seed=count)
    assert_same_evaluation(
        NativeBench(digits_like, pool).evaluate(), Bench(digits_like, pool).evaluate()
    )


@pytest.mark.parametrize("num_classes", [1, 2, 1000])
def test_every_number_of_classes(num_classes):
    pool = image_pool(30, (7,), num_classes)
    evaluations = [
        kind(lambda: perceptron(num_classes), pool).evaluate() for kind in (NativeBench, Bench)
    ]
    assert_same_evaluation(*evaluations)
    if num_classes == 1:
        assert evaluations[0].loss == 0
        assert evaluations[0].score == 1


def test_of_equal_scores_the_first_class_counts():
    """As with torch's argmax."""
    pool = image_pool(12, (7,), 4)
    bench, other = NativeBench(lambda: perceptron(4), pool), Bench(lambda: perceptron(4), pool)
    for models in (bench.models, other.models):
        models[:] = 0
    evaluation = bench.evaluate()
    assert_same_evaluation(evaluation, other.evaluate())
    assert evaluation.score == (pool.targets == 0).mean()
    np.testing.assert_allclose(evaluation.losses, np.log(4), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1.0, 80.0, 1e4, 1e20])
def test_scores_of_any_size(size):
    """No exponential may overflow."""
    pool = image_pool(20, (7,), 3)
    pool.inputs[:] *= np.float32(size)
    evaluations = [kind(perceptron, pool).evaluate() for kind in (NativeBench, Bench)]
    assert np.isfinite(evaluations[0].losses).all()
    assert_same_evaluation(*evaluations, size=size)


@pytest.mark.parametrize("size", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stay_visible(size):
    pool = image_pool(9, (7,), 3)
    pool.inputs[4, 2] = size
    losses = NativeBench(perceptron, pool).evaluate().losses
    np.testing.assert_array_equal(np.isfinite(losses), np.arange(9) != 4)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("layers", [[nn.MaxPool2d(2)], [nn.Conv2d(1, 1, 1), nn.MaxPool2d(2)]])
def test_pooling_hides_no_nan(layers, place):
    """Wherever in its window it stands; torch lets it through as well."""
    pool = image_pool(3, (1, 2, 2), 2)
    pool.inputs[1].reshape(-1)[place] = np.nan

    def build() -> nn.Module:
        return chain(*layers, nn.Flatten(), nn.Linear(1, 2))

    expected = [False, True, False]
    assert np.isnan(Bench(build, pool).evaluate().losses).tolist() == expected
    assert np.isnan(NativeBench(build, pool).evaluate().losses).tolist() == expected


def test_chosen_rows_and_ranges():
    pool = image_pool(30, DIGITS_LIKE, 4)
    bench = NativeBench(digits_like, pool)
    everything = bench.evaluate().losses
    chosen = np.array([29, 3, 3, 17, 0, 8, 9, 21, 11])
    for samples in (Samples(0, 0, 30, chosen), Samples(0, 5, 16), Samples(0, 29, 30)):
        np.testing.assert_array_equal(
            bench.evaluate(samples=samples).losses, everything[samples.rows()]
        )


def test_each_job_uses_its_own_model_and_pool():
    pools = [image_pool(10, (7,), 3), image_pool(6, (7,), 3, seed=5)]
    bench = NativeBench(perceptron, pools, num_models=5)
    rng = np.random.default_rng(0)
    bench.models[:] = rng.normal(size=bench.models.shape)
    jobs = [
        EvaluateJob(ModelReference("current", row), Samples(pool, 0, count))
        for row in range(5)
        for pool, count in ((0, 10), (1, 6))
    ]
    together = bench.trainer.evaluate(jobs)
    for job, evaluation in zip(jobs, together, strict=True):
        alone = NativeBench(perceptron, pools[job.samples.pool])
        alone.models[0] = bench.models[job.model.row]
        np.testing.assert_array_equal(alone.evaluate().losses, evaluation.losses)
    assert len({evaluation.losses.tobytes() for evaluation in together}) == len(jobs)


def test_evaluation_changes_nothing():
    bench = NativeBench(digits_like, image_pool(20, DIGITS_LIKE, 4))
    before = bench.evaluate().losses
    assert bench.models.tobytes() == np.stack([bench.start] * 2).tobytes()
    assert bench.evaluate().losses.tobytes() == before.tobytes()


def test_data_that_change_in_their_pool_are_seen():
    """Drift fills the pools again; the trainer must not hold copies."""
    bench = NativeBench(perceptron, image_pool(9, (7,), 3))
    before = bench.evaluate().losses
    bench.pools[0].inputs[:] *= -1
    assert (bench.evaluate().losses != before).all()


@pytest.mark.parametrize(
    "samples",
    [
        Samples(0, 0, 11),
        Samples(0, -1, 5),
        Samples(0, 0, 9, np.array([3, 10])),
        Samples(0, 9, 12),
        Samples(0, 0, 9, np.array([0, 2**62])),
        Samples(0, 0, 9, np.array([-(2**63)])),
    ],
)
def test_rows_outside_the_data_are_refused(samples):
    bench = NativeBench(perceptron, image_pool(10, (7,), 3))
    for work in (bench.train, bench.evaluate):
        with pytest.raises(TrainingError, match="row number lies outside the data"):
            work(samples=samples)
    assert bench.models[0].tobytes() == bench.start.tobytes()


@pytest.mark.parametrize("label", [3, -1, 2**62])
def test_labels_that_are_no_class_are_refused(label):
    bench = NativeBench(perceptron, image_pool(10, (7,), 3))
    bench.pools[0].targets[7] = label
    for work in (bench.train, bench.evaluate):
        with pytest.raises(TrainingError, match="label is not among the model's classes"):
            work()
    assert bench.models[0].tobytes() == bench.start.tobytes()
    assert np.isfinite(bench.train(samples=Samples(0, 0, 7)))


def test_after_a_refusal_the_trainer_goes_on():
    bench, fresh = (NativeBench(perceptron, image_pool(10, (7,), 3)) for _ in range(2))
    for _ in range(3):
        with pytest.raises(TrainingError):
            bench.train(samples=Samples(0, 0, 11))
    assert bench.train() == fresh.train()


POOL = image_pool(10, (7,), 3)
BAD_POOLS = {
    "float64 inputs": Pool(POOL.inputs.astype(np.float64), POOL.targets),
    "inputs with gaps": Pool(np.repeat(POOL.inputs, 2, axis=1)[:, ::2], POOL.targets),
    "every other sample": Pool(np.repeat(POOL.inputs, 2, axis=0)[::2], POOL.targets),
    "int32 labels": Pool(POOL.inputs, POOL.targets.astype(np.int32)),
    "float labels": Pool(POOL.inputs, POOL.targets.astype(np.float32)),
    "labels with gaps": Pool(POOL.inputs, np.repeat(POOL.targets, 2)[::2]),
    "too few labels": Pool(POOL.inputs, POOL.targets[:-1].copy()),
    "narrower samples": Pool(POOL.inputs[:, :6].copy(), POOL.targets),
}


@pytest.mark.parametrize("name", BAD_POOLS)
def test_data_that_lie_otherwise_are_refused(name):
    """Also if only the second pool does: the first one's layout is not that of all."""
    with pytest.raises(ConfigError, match=r"its data are|not laid out"):
        NativeBench(perceptron, [POOL, BAD_POOLS[name]])


def test_integer_targets_of_a_regression_are_refused():
    pools = [image_pool(10, (7,), None), image_pool(10, (7,), 3)]
    with pytest.raises(ConfigError, match="its data are int64"):
        NativeBench(lambda: perceptron(1), pools, regression=True)
