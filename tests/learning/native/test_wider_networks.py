"""Compiled networks with normalisations, sums and embeddings, and all losses, against torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from native_bench import LEVELS, NativeBench, chain, gradients, image_pool, library
from torch import nn
from torch_bench import Bench
from wider_networks import CLASSES, NETWORKS, TOKENS, WITH_BATCH_NORM, build, pool_for

from coterie.data.pools import Pool, Samples
from coterie.errors import TrainingError
from coterie.learning.native.native_trainer import NativeTrainer
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob, Workspace
from coterie.learning.trainer_choice import make_native_trainer, make_trainer
from coterie.models.layout import Layout
from coterie.models.vector import vector_of
from coterie.tasks import Task, TaskScore

STEADY = {"optimizer": "sgd", "learning_rate": 0.05, "momentum": 0.5}


def benches(name: str, count: int, **settings: object) -> tuple[NativeBench, Bench]:
    """Return the compiled trainer's bench and torch's, from the same start."""
    pool = pool_for(name, count)
    options = {**STEADY, **settings}
    return tuple(kind(lambda: build(name), pool, **options) for kind in (NativeBench, Bench))


def torch_gradient(module: nn.Module, pool: Pool) -> np.ndarray:
    """Return torch's gradient (P,) in training mode, in the precision of the module."""
    inputs = torch.from_numpy(pool.inputs)
    if inputs.is_floating_point():
        inputs = inputs.to(next(module.parameters()).dtype)
    loss = nn.functional.cross_entropy(module.train()(inputs), torch.from_numpy(pool.targets))
    named = dict(module.named_parameters())
    found = dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
    layout = Layout.of(copy.deepcopy(module).float())
    gradient = np.zeros(layout.size, np.float64)
    for entry in layout.entries:
        if entry.name in found:
            gradient[entry.start : entry.stop] = found[entry.name].numpy().reshape(-1)
    return gradient


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", [2, 8, 11, 19])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_whole_batches(name, count, level):
    """Against float64, with the tolerance that float32 needs near kinks."""
    pool = pool_for(name, count)
    exact = torch_gradient(build(name).double(), pool)
    theirs = torch_gradient(build(name), pool)
    ours = gradients(build(name), pool, level=level)
    size = np.linalg.norm(exact)
    assert size > 1e-2
    error = np.linalg.norm(theirs - exact)
    assert np.linalg.norm(ours - exact) <= 8 * error + 2e-6 * size


@pytest.mark.parametrize("batch_size", [5, 8, 20])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_and_evaluation_as_with_torch(name, batch_size):
    """A batch smaller than a group, a whole group, and several groups."""
    native, other = benches(name, 40, batch_size=batch_size)
    losses = native.train(), other.train()
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    moved = np.linalg.norm(other.models[0] - other.start)
    assert moved > 1e-2
    # Kinks let two right answers part slowly.
    assert np.linalg.norm(native.models[0] - other.models[0]) < 0.01 * moved
    native.models[0] = other.models[0]
    ours, theirs = native.evaluate(), other.evaluate()
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-3, atol=1e-4)
    assert ours.score == theirs.score


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["bag", "tiny images"])
def test_rows_and_weights_without_a_gradient(name, decay, optimizer):
    """With decay they shrink; without, only momentum moves them, after the batches they are in."""
    options = {"optimizer": optimizer, "weight_decay": decay, "momentum": 0.0}
    native, other = benches(name, 20, batch_size=4, learning_rate=1e-3, **options)
    native.train(epochs=2)
    other.train(epochs=2)
    # Where a gradient is rounding errors, Adam's step has no right sign.
    close = np.isclose(native.models[0], other.models[0], rtol=1e-4, atol=2e-5)
    assert close.mean() > 0.98
    moved = native.models[0] != native.start
    np.testing.assert_array_equal(moved[close], (other.models[0] != other.start)[close])
    if decay == 0:
        assert not moved.all()


@pytest.mark.parametrize("batch_size", [3, 8, 30])
@pytest.mark.parametrize("name", WITH_BATCH_NORM)
def test_running_statistics_are_torchs(name, batch_size):
    """With a step too short to change the weights, so that only the statistics change."""
    native, other = benches(name, 30, batch_size=batch_size, learning_rate=1e-30)
    native.train(epochs=2)
    other.train(epochs=2)
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=2e-5, atol=1e-6)
    statistics = [entry for entry in native.trainer.layout.entries if not entry.trainable]
    assert statistics
    for entry in statistics:
        mine = slice(entry.start, entry.stop)
        assert (native.models[0][mine] != native.start[mine]).all()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_frozen_layers_keep_their_statistics(depth):
    native, other = benches("resnet", 24)
    (head, *_) = native.trainer.layout.last_layers(depth)
    losses = [bench.train(epochs=2, last_layers=depth) for bench in (native, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert native.models[0][: head.start].tobytes() == native.start[: head.start].tobytes()
    np.testing.assert_allclose(native.models[0], other.models[0], rtol=1e-3, atol=1e-4)


def test_a_single_sample_cannot_be_normalised():
    native, other = benches("perceptron", 17, batch_size=8)
    with pytest.raises(TrainingError, match="more than one sample in a batch"):
        native.train()
    with pytest.raises(TrainingError, match="more than 1 value per channel"):
        other.train()
    assert native.models[0].tobytes() == native.start.tobytes()
    assert np.isfinite(native.train(samples=Samples(0, 0, 16)))


@pytest.mark.parametrize("token", [-1, TOKENS, 2**40])
def test_tokens_that_are_no_row_are_refused(token):
    native, _ = benches("bag", 10)
    native.pools[0].inputs[4, 2] = token
    for work in (native.train, native.evaluate):
        with pytest.raises(TrainingError, match="token is not among the rows"):
            work()


@pytest.mark.parametrize("name", ["resnet", "mixed", "perceptron", "bag", "tiny images"])
def test_a_nan_stays_visible(name):
    native, _ = benches(name, 16)
    native.models[0][native.trainer.layout.entries[0].start + 20] = np.nan
    assert np.isnan(native.train()) or np.isnan(native.evaluate().loss)


@pytest.mark.parametrize("name", ["resnet", "mixed", "bag"])
def test_a_diverged_model_leaves_no_trace_in_the_next_one(name):
    native, _ = benches(name, 16)
    fresh, _ = benches(name, 16)
    native.models[1] = np.nan
    native.train(1)
    assert native.train(0) == fresh.train(0)
    assert native.models[0].tobytes() == fresh.models[0].tobytes()


@pytest.mark.parametrize("name", ["resnet", "mixed", "bag"])
def test_the_number_of_threads_changes_no_bit(name):
    made = {}
    for threads in (1, 3):
        bench = NativeBench(lambda: build(name), pool_for(name, 24), threads=threads, num_models=7)
        jobs = [
            TrainJob(ModelReference("current", row), Samples(0, 0, 24), 2, row) for row in range(7)
        ]
        made[threads] = bench.trainer.train(jobs), bench.models.tobytes()
        bench.trainer.close()
    assert made[1] == made[3]


LOSS_POOLS = {
    "bce": (Task("bce", "auc", metrics=["f1", "accuracy"]), (3,)),
    "bce of one label": (Task("bce"), ()),
    "mse": (Task("mse", "r2", metrics=["mae"]), (3,)),
    "huber": (Task("huber"), ()),
    "huber of several": (Task("huber", "rmse"), (3,)),
    "mae": (Task("mae"), (3,)),
    "own score": (Task("mse", (TaskScore("largest"), lambda out, _: float(out.max()))), ()),
}


@pytest.mark.parametrize("name", LOSS_POOLS)
def test_losses_and_scores_as_with_torch(name):
    task, sizes = LOSS_POOLS[name]
    rng = np.random.default_rng(2)
    targets = (2 * rng.standard_normal((30, *sizes))).astype(np.float32)
    if task.loss == "bce":
        targets = (targets > 0).astype(np.float32)
    pool = Pool(rng.standard_normal((30, 6), dtype=np.float32), targets)

    def made() -> nn.Module:
        return chain(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, *(sizes or (1,))))

    models = np.stack([vector_of(made())] * 2)
    workspace = Workspace([pool], {"models": models})
    settings = TrainingSettings(trainer="native", **STEADY)
    native = make_trainer(made, settings, workspace, task, threads=1, tell=pytest.fail)
    assert type(native) is NativeTrainer
    other = TorchTrainer(made, settings, workspace, task)
    losses, evaluations = [], []
    for row, trainer in enumerate((native, other)):
        reference = ModelReference("models", row)
        losses += trainer.train([TrainJob(reference, Samples(0, 0, 30), 3, 5)])
        job = EvaluateJob(reference, Samples(0, 4, 29), with_metrics=True)
        evaluations += trainer.evaluate([job])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    np.testing.assert_allclose(models[0], models[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(evaluations[0].losses, evaluations[1].losses, rtol=1e-4, atol=1e-6)
    assert evaluations[0].score == pytest.approx(evaluations[1].score, rel=1e-4)
    assert evaluations[0].metrics == pytest.approx(evaluations[1].metrics, rel=1e-4)
    assert len(evaluations[0].metrics) == len(task.metrics)


def test_values_of_any_size_have_finite_losses():
    pool = image_pool(20, (6,), None)
    pool.targets[:] = pool.targets > 0
    pool.inputs[:] *= 1e6
    module = chain(nn.Linear(6, 1))
    workspace = Workspace([pool], {"models": vector_of(module)[np.newaxis]})
    trainer = make_native_trainer(module, TrainingSettings(), workspace, Task("bce"), threads=1)
    (found,) = trainer.evaluate([EvaluateJob(ModelReference("models", 0), Samples(0, 0, 20))])
    assert np.isfinite(found.losses).all()
    assert found.losses.max() > 1e5


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [1e-6, 0.1, 0.6, 1.0, 5.0, 30.0, 1e4])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "gelu", "gelu by tanh", "silu"])
def test_activations_are_precise_for_inputs_of_any_size(name, size, level):
    assert library(level).level == level
    pool = image_pool(64, (9,), CLASSES)
    pool.inputs[:] *= np.float32(size)
    bench = NativeBench(lambda: build(name), pool, level=level)
    other = Bench(lambda: build(name), pool)
    np.testing.assert_allclose(
        bench.evaluate().losses, other.evaluate().losses, rtol=3e-6 * max(size, 1), atol=2e-6
    )
