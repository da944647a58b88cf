"""Compiled training against torch's: optimisers, batches, losses, layers, dropout, divergence."""

from __future__ import annotations

import numpy as np
import pytest
from native_bench import DIGITS_LIKE, NativeBench, chain, digits_like, gradients, image_pool
from torch import nn
from torch_bench import BITS, Bench

from coterie.data.pools import Samples
from coterie.errors import ConfigError
from coterie.learning.trainer import ModelReference, TrainJob, batch_order

OPTIMIZERS = {
    "sgd": {"optimizer": "sgd"},
    "sgd with momentum": {"optimizer": "sgd", "momentum": 0.9},
    "sgd with decay": {"optimizer": "sgd", "weight_decay": 0.1},
    "sgd with both": {"optimizer": "sgd", "momentum": 0.8, "weight_decay": 0.2},
    "adam": {"optimizer": "adam"},
    "adam with decay": {"optimizer": "adam", "weight_decay": 0.1},
    "adamw": {"optimizer": "adamw"},
    "adamw with decay": {"optimizer": "adamw", "weight_decay": 0.1},
}


def two_benches(build, pool, **options):
    """Return the compiled trainer's bench and torch's, from the same start."""
    return NativeBench(build, pool, **options), Bench(build, pool, **options)


def linear():
    return chain(nn.Linear(7, 3))


def regressing():
    return chain(nn.Linear(7, 5), nn.Linear(5, 1))


def perceptron():
    return chain(
        nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5, bias=False), nn.ReLU(), nn.Linear(5, 3)
    )


@pytest.mark.parametrize("batch_size", [5, 20])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("build", [perceptron, digits_like])
def test_one_step_of_every_optimiser(build, name, batch_size):
    """Small batches update linear layers at once, large ones after all groups of eight."""
    shape = DIGITS_LIKE if build is digits_like else (7,)
    pool = image_pool(batch_size, shape, 3)
    options = {**OPTIMIZERS[name], "batch_size": batch_size, "learning_rate": 0.02}
    native, other = two_benches(build, pool, **options)
    assert native.train() == pytest.approx(other.train(), rel=1e-5)
    # Where a gradient is nothing but rounding errors, Adam's step has no right sign.
    size = np.abs(gradients(native.module().module, pool) + 0.1 * native.start)
    clear = (size > 1e-4 * size.max()) | (options["optimizer"] == "sgd")
    assert clear.mean() > 0.7
    moved = np.abs(native.models[0] - native.start)
    assert moved.max() > 1e-3
    np.testing.assert_allclose(
        native.models[0][clear], other.models[0][clear], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("build", "classes"), [(linear, 3), (regressing, None)])
def test_many_steps_on_smooth_models(build, classes, name):
    """Without kinks, rounding errors stay small: 5 epochs of 3 batches, the last one smaller."""
    pool = image_pool(20, (7,), classes)
    options = {**OPTIMIZERS[name], "batch_size": 8, "regression": classes is None}
    native, other = two_benches(build, pool, learning_rate=0.02, **options)
    losses = native.train(epochs=5), other.train(epochs=5)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert np.abs(native.models[0] - native.start).max() > 0.01
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=2e-4, atol=2e-5)


def test_the_optimisers_differ():
    """Otherwise the tests above could not tell them apart."""
    trained = set()
    for settings in OPTIMIZERS.values():
        bench = NativeBench(linear, image_pool(20, (7,), 3), learning_rate=0.02, **settings)
        bench.train(epochs=5)
        trained.add(np.round(bench.models[0], 3).tobytes())
    # Without decay, AdamW is Adam.
    assert len(trained) == len(OPTIMIZERS) - 1


@pytest.mark.parametrize("batch_size", [1, 3, 8, 9, 20, 64])
def test_batches_come_in_torchs_order(batch_size):
    """Steps are large, so another order or other batches end elsewhere."""
    pool = image_pool(20, (7,), 3)
    options = {"optimizer": "sgd", "learning_rate": 0.3, "batch_size": batch_size}
    native, other = two_benches(linear, pool, **options)
    native.train(epochs=2)
    other.train(epochs=2)
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=1e-3, atol=1e-4)
    if batch_size < 20:
        native.train(1, epochs=2, bits=BITS + 1)
        assert np.abs(native.models[1] - native.models[0]).max() > 0.02


@pytest.mark.parametrize("samples", [Samples(0, 3, 15), Samples(0, 0, 20, np.array([9, 2, 5, 17]))])
def test_only_the_samples_of_the_job_are_trained(samples):
    pool = image_pool(20, (7,), 3)
    native, other = two_benches(linear, pool, optimizer="sgd", learning_rate=0.1, batch_size=5)
    losses = [bench.train(epochs=2, samples=samples) for bench in (native, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=1e-4, atol=1e-5)


def test_row_numbers_of_any_kind_of_integer_are_understood():
    """Every other one of 32-bit numbers: neither their width nor their gaps may confuse it."""
    rows = np.arange(20, dtype=np.int32)[::2]
    pool = image_pool(20, (7,), 3)
    bench, other = (NativeBench(linear, pool) for _ in range(2))
    chosen, plain = Samples(0, 0, 20, rows), Samples(0, 0, 20, rows.astype(np.int64).copy())
    assert bench.train(samples=chosen) == other.train(samples=plain)
    assert bench.evaluate(samples=chosen).losses.tobytes() == (
        other.evaluate(samples=plain).losses.tobytes()
    )


def test_training_makes_the_loss_smaller():
    bench = NativeBench(digits_like, image_pool(20, DIGITS_LIKE, 4), learning_rate=5e-3)
    before = bench.evaluate().loss
    losses = [bench.train(epochs=10, bits=bits) for bits in range(3)]
    assert before > losses[0] > losses[1] > losses[2]
    assert bench.evaluate().loss < 0.3 * before


@pytest.mark.parametrize("batch_size", [8, 13])
def test_a_convolutional_model_trains_as_with_torch(batch_size):
    """Kinks let two right answers part slowly: after a few steps they are still close."""
    pool = image_pool(40, DIGITS_LIKE, 4)
    options = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": batch_size}
    native, other = two_benches(digits_like, pool, **options)
    losses = native.train(epochs=3), other.train(epochs=3)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    moved = np.linalg.norm(other.models[0] - other.start)
    assert np.linalg.norm(native.models[0] - other.models[0]) < 0.01 * moved


def test_the_loss_is_the_mean_over_the_samples_of_the_last_epoch():
    """With a rate so small that nothing changes it is that of an evaluation, in 8, 8 and 4."""
    bench = NativeBench(digits_like, image_pool(20, DIGITS_LIKE, 4), learning_rate=1e-30)
    loss = bench.train(epochs=3)
    assert bench.models[0].tobytes() == bench.start.tobytes()
    assert loss == pytest.approx(bench.evaluate().loss, rel=1e-5)


def test_every_training_starts_with_a_fresh_optimiser():
    """Whatever was trained before on the same thread."""
    options = {"optimizer": "adam", "learning_rate": 0.05}
    bench, fresh = (NativeBench(linear, image_pool(20, (7,), 3), **options) for _ in range(2))
    bench.train(1, epochs=4)
    assert bench.train(0, epochs=2) == fresh.train(0, epochs=2)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()


@pytest.mark.parametrize("batch_size", [4, 12])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_training_the_last_layers(depth, batch_size):
    pool = image_pool(24, DIGITS_LIKE, 4)
    options = {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "learning_rate": 0.02}
    native, other = two_benches(digits_like, pool, batch_size=batch_size, **options)
    (head,) = native.trainer.layout.last_layers(depth)
    losses = [bench.train(epochs=2, last_layers=depth) for bench in (native, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert native.models[0][: head.start].tobytes() == native.start[: head.start].tobytes()
    assert (native.models[0][head] != native.start[head]).mean() > 0.9
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("depth", [0, -1, 5])
def test_more_or_fewer_layers_than_there_are_cannot_be_trained(depth):
    bench = NativeBench(digits_like, image_pool(9, DIGITS_LIKE, 4))
    with pytest.raises(ConfigError, match="4 layers"):
        bench.train(last_layers=depth)
    assert bench.models[0].tobytes() == bench.start.tobytes()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("build", [perceptron, digits_like])
def test_training_that_leaves_the_finite_numbers_gives_nan(build, optimizer):
    shape = DIGITS_LIKE if build is digits_like else (7,)
    bench = NativeBench(
        build, image_pool(20, shape, 3), optimizer=optimizer, learning_rate=1e30, weight_decay=1.0
    )
    assert np.isnan(bench.train(epochs=3))
    assert not np.isfinite(bench.models[0]).all()


def test_a_last_step_that_breaks_the_weights_is_noticed():
    """The loss is measured before the step, so it is still finite."""
    pool = image_pool(8, (7,), None)
    pool.targets[:] = 1e4
    bench = NativeBench(regressing, pool, regression=True, optimizer="sgd", learning_rate=1e38)
    assert np.isfinite(bench.evaluate().loss)
    assert np.isnan(bench.train(epochs=1))


@pytest.mark.parametrize("build", [perceptron, digits_like])
def test_nan_in_a_model_stays_visible(build):
    shape = DIGITS_LIKE if build is digits_like else (7,)
    for place in (0, -1):
        bench = NativeBench(build, image_pool(20, shape, 3))
        bench.models[0][place] = np.nan
        assert np.isnan(bench.evaluate().loss)
        assert np.isnan(bench.train())
        assert np.isnan(bench.models[0]).any()


@pytest.mark.parametrize("build", [linear, perceptron, digits_like])
def test_a_diverged_model_leaves_no_trace_in_the_next_one(build):
    """Peers take turns on the same memory, and one peer's trouble is its own."""
    shape = DIGITS_LIKE if build is digits_like else (7,)
    bench, fresh = (NativeBench(build, image_pool(20, shape, 3)) for _ in range(2))
    bench.models[1][:] = np.nan
    assert np.isnan(bench.train(1))
    assert bench.train(0) == fresh.train(0)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()
    assert bench.evaluate(0).losses.tobytes() == fresh.evaluate(0).losses.tobytes()


WIDTH = 4000


def ones(rate: float, dropouts: int = 1) -> nn.Module:
    """Add WIDTH dropped-out copies of a value: if all weights are 1, it counts what was kept."""
    between = [nn.Dropout(rate) for _ in range(dropouts)]
    return chain(nn.Linear(1, WIDTH, bias=False), *between, nn.Linear(WIDTH, 1))


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.9])
def test_dropout_drops_its_share_and_scales_the_rest(rate):
    """The mean stays the same; and with Adam exactly those weights move that were kept."""
    pool = image_pool(1, (1,), None)
    pool.inputs[:], pool.targets[:] = 1, 0
    bench = NativeBench(lambda: ones(rate), pool, regression=True, learning_rate=1e-3)
    bench.models[:] = 1
    bench.models[:, -1] = 0
    loss = bench.train()
    kept = bench.models[0][WIDTH : 2 * WIDTH] != 1
    assert kept.mean() == pytest.approx(1 - rate, abs=0.03)
    assert np.sqrt(loss) == pytest.approx(kept.sum() / (1 - rate), rel=1e-5)
    # A value that was dropped passes no gradient back either.
    np.testing.assert_array_equal(bench.models[0][:WIDTH] != 1, kept)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_2d_drops_whole_channels(rate):
    """With Adam exactly those weights move that were kept: of a channel all four, or none."""
    channels = 1000
    pool = image_pool(1, (1, 2, 2), None)
    pool.inputs[:], pool.targets[:] = 1, 0
    conv = nn.Conv2d(1, channels, 1, bias=False)
    layers = (conv, nn.Dropout2d(rate), nn.Flatten(), nn.Linear(4 * channels, 1))
    bench = NativeBench(lambda: chain(*layers), pool, regression=True, learning_rate=1e-3)
    bench.models[:] = 1
    bench.models[:, -1] = 0
    loss = bench.train()
    kept = (bench.models[0][channels:-1] != 1).reshape(channels, 4)
    assert (kept == kept[:, :1]).all()
    assert kept.mean() == pytest.approx(1 - rate, abs=0.06)
    assert np.sqrt(loss) == pytest.approx(kept.sum() / (1 - rate), rel=1e-4)
    np.testing.assert_array_equal(bench.models[0][:channels] != 1, kept[:, 0])


def test_dropping_everything_leaves_the_bias_alone():
    pool = image_pool(5, (1,), None)
    bench = NativeBench(lambda: ones(1.0), pool, regression=True)
    before = bench.models[0].copy()
    bench.train()
    np.testing.assert_array_equal(bench.models[0][:-1], before[:-1])
    assert bench.models[0][-1] != before[-1]


def dropping() -> nn.Module:
    return chain(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.Dropout(0.3),
        nn.Conv2d(4, 3, 3, padding=1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(3 * 72, 4),
    )


def test_dropout_depends_on_the_bits_of_the_job_alone():
    pool = image_pool(20, DIGITS_LIKE, 4)
    # One batch per epoch, so that the order of the samples cannot make the difference.
    benches = [NativeBench(dropping, pool, batch_size=20, num_models=3) for _ in range(2)]
    benches[1].train(2, bits=5)
    for bench in benches:
        bench.train(0, bits=1)
        bench.train(1, bits=2)
    assert benches[0].models[0].tobytes() == benches[1].models[0].tobytes()
    assert np.abs(benches[0].models[0] - benches[0].models[1]).max() > 1e-4


@pytest.mark.parametrize(
    ("count", "batch_size", "dropouts", "moved"),
    [(1, 1, 1, 0.5), (16, 16, 1, 1.0), (8, 8, 1, 1 - 0.5**8), (2, 1, 1, 0.75), (1, 1, 2, 0.25)],
    ids=["one", "samples of two groups", "samples of one group", "steps", "layers"],
)
def test_dropout_differs_between_samples_steps_and_layers(count, batch_size, dropouts, moved):
    """A weight moves unless it was dropped every time, so common masks would move fewer."""
    pool = image_pool(count, (1,), None)
    pool.inputs[:], pool.targets[:] = 1, 0
    options = {"regression": True, "batch_size": batch_size, "learning_rate": 1e-3}
    bench = NativeBench(lambda: ones(0.5, dropouts), pool, **options)
    bench.models[:] = 1
    bench.train()
    share = (bench.models[0][WIDTH : 2 * WIDTH] != 1).mean()
    assert share == pytest.approx(moved, abs=0.03 * (1 - moved) ** 0.5 + 5e-4)


def test_dropout_is_off_in_evaluation():
    native, other = two_benches(dropping, image_pool(20, DIGITS_LIKE, 4))
    np.testing.assert_allclose(native.evaluate().losses, other.evaluate().losses, rtol=1e-4)


def test_a_model_of_the_wrong_shape_is_refused():
    bench = NativeBench(linear, image_pool(9, (7,), 3))
    workspace = bench.trainer.workspace
    matrices = {
        "narrow": np.zeros((2, 23), np.float32),
        "double": np.zeros((2, 24)),
        "gaps": np.zeros((2, 48), np.float32)[:, ::2],
    }
    for name, matrix in matrices.items():
        workspace.matrices[name] = matrix
        job = TrainJob(ModelReference(name, 1), Samples(0, 0, 9), 1, BITS)
        with pytest.raises(ConfigError, match=rf"Row 1 of '{name}' .*\(24,\)"):
            bench.trainer.train([job])
        assert not matrix.any()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [5, 8, 12])
def test_what_frozen_layers_make_of_a_sample_is_the_same_in_the_next_epoch(depth, batch_size):
    """Bit for bit: two epochs are one, and another in the order of the second."""
    options = {"optimizer": "sgd", "learning_rate": 0.02, "batch_size": batch_size}
    pool = image_pool(30, DIGITS_LIKE, 4)
    rows = np.arange(3, 26)[::-1].copy()
    both, one = (NativeBench(digits_like, pool, **options) for _ in range(2))
    job = TrainJob(ModelReference("current", 0), Samples(0, 0, 30, rows), epochs=2, bits=BITS)
    first, second = batch_order(job)
    both.train(epochs=2, samples=job.samples, last_layers=depth)
    one.train(samples=job.samples, last_layers=depth)
    again = rows[second][np.argsort(first)]
    one.train(samples=Samples(0, 0, 30, again), last_layers=depth)
    assert both.models[0].tobytes() == one.models[0].tobytes()


def test_frozen_dropout_is_drawn_anew_in_every_epoch():
    """A weight moves unless it was dropped in both."""
    pool = image_pool(1, (1,), None)
    pool.inputs[:], pool.targets[:] = 1, 0
    bench = NativeBench(lambda: ones(0.5), pool, regression=True, learning_rate=1e-3)
    bench.models[:] = 1
    bench.train(epochs=2, last_layers=1)
    assert (bench.models[0][WIDTH : 2 * WIDTH] != 1).mean() == pytest.approx(0.75, abs=0.03)
