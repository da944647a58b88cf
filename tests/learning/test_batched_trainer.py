"""Many peers at once, on the CPU: the same as one after another, but for roundings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from batched_bench import MODULES, PEERS, SIZE, Group, assert_close, image_network, pair
from small_runs import CLASSES
from torch import nn
from torch_bench import a_pool, deep, dropping, normalised, regressing

from coterie.data.pools import Samples
from coterie.errors import ConfigError, TrainingError
from coterie.learning.batched_trainer import BatchedTrainer
from coterie.learning.device import CPU
from coterie.learning.stacked_module import StackedModule, views
from coterie.learning.torch_trainer import EVALUATION_BATCH
from coterie.learning.trainer import ModelReference, TrainJob
from coterie.models.vector import FlatModule, initial_vector
from coterie.tasks import Task

OPTIMIZERS = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1},
]


@pytest.mark.parametrize("build", MODULES)
def test_gradients_are_those_of_each_model_alone(build):
    pool, flat = a_pool(PEERS * SIZE), FlatModule(build())
    rows = np.arange(PEERS * SIZE).reshape(PEERS, SIZE)
    models = np.stack([initial_vector(build, number) for number in range(PEERS)])
    stacked = StackedModule(build(), CPU, Task())
    parts = [views(torch.from_numpy(models), [e]) for e in flat.layout.entries if e.trainable]
    others = [views(torch.from_numpy(models), [e]) for e in flat.layout.entries if not e.trainable]
    trained = {name: view for part in parts for name, view in part.items()}
    buffers = {name: view for part in others for name, view in part.items()}
    gradients, losses, _ = stacked.gradients(
        trained,
        {},
        buffers | stacked.counters(PEERS),
        torch.from_numpy(pool.inputs[rows]),
        torch.from_numpy(pool.targets[rows]),
    )
    for number in range(PEERS):
        flat.load(models[number])
        outputs = flat.training_module()(torch.from_numpy(pool.inputs[rows[number]]))
        loss = nn.functional.cross_entropy(outputs, torch.from_numpy(pool.targets[rows[number]]))
        flat.flat_grad.zero_()
        loss.backward()
        assert losses[number].item() == pytest.approx(loss.item(), rel=1e-5)
        for entry in flat.layout.entries:
            if entry.trainable:
                mine = gradients[entry.name][number].flatten().numpy()
                alone = flat.flat_grad[entry.start : entry.stop].numpy()
                np.testing.assert_allclose(mine, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("build", MODULES)
@pytest.mark.parametrize("settings", [OPTIMIZERS[1], OPTIMIZERS[2]])
def test_trainings_are_those_of_each_model_alone(build, settings):
    ours, theirs = pair(build, **settings)
    losses, expected = ours.train(), theirs.train()
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert len(set(losses)) == PEERS
    assert_close(ours, theirs)


@pytest.mark.parametrize("settings", OPTIMIZERS)
def test_all_optimisers_train_alike_in_lock_step_and_for_long(settings):
    for size, epochs, tolerance in ((SIZE, 1, 1e-6), (3, 6, 5e-5)):
        ours, theirs = pair(batch_size=size, **settings)
        ours.train(epochs=epochs)
        theirs.train(epochs=epochs)
        assert_close(ours, theirs, tolerance)


@pytest.mark.parametrize("batch_size", [1, 4, 32])
def test_regression_is_trained_alike(batch_size):
    ours, theirs = pair(regressing, regression=True, batch_size=batch_size)
    np.testing.assert_allclose(ours.train(), theirs.train(), rtol=1e-4)
    assert_close(ours, theirs)
    (mine, *_), (alone, *_) = ours.evaluate(Samples(0, 3, 9)), theirs.evaluate(Samples(0, 3, 9))
    np.testing.assert_allclose(mine.losses, alone.losses, rtol=1e-4)
    assert mine.losses.shape == (6,)
    assert mine.score == mine.loss


def test_peers_with_different_numbers_of_samples_are_trained_alike():
    sizes = [SIZE, 4, 7, SIZE, 4]
    ours, theirs = pair()
    np.testing.assert_allclose(ours.train(sizes), theirs.train(sizes), rtol=1e-4)
    assert_close(ours, theirs)


@pytest.mark.parametrize("build", [deep, normalised])
@pytest.mark.parametrize("settings", [OPTIMIZERS[4], OPTIMIZERS[1]])
def test_training_the_last_layers_leaves_the_others_bit_for_bit(build, settings):
    ours, theirs = pair(build, **settings)
    np.testing.assert_allclose(ours.train(last_layers=1), theirs.train(last_layers=1), rtol=1e-4)
    assert_close(ours, theirs)
    (head,) = ours.trainer.layout.last_layers(1)
    assert ours.models[:, : head.start].tobytes() == ours.start[:, : head.start].tobytes()


def test_more_last_layers_than_there_are_cannot_be_trained():
    with pytest.raises(ConfigError, match="3 layers"):
        Group().train(last_layers=4)


@pytest.mark.parametrize("build", [deep, normalised, dropping, image_network])
def test_the_number_of_peers_at_once_does_not_matter(build):
    trained, losses, measured = [], [], []
    for at_once in (1, 2, None):
        group = Group(build, peers_at_once=at_once)
        losses.append(group.train([SIZE, SIZE, SIZE, SIZE, 6]))
        trained.append(group.models)
        measured.append([each.losses for each in group.evaluate(Samples(0, 0, 20))])
    for other in (1, 2):
        np.testing.assert_allclose(trained[other], trained[0], atol=1e-5)
        np.testing.assert_allclose(losses[other], losses[0], rtol=1e-5)
        np.testing.assert_allclose(measured[other], measured[0], rtol=1e-4)


def test_the_same_jobs_give_the_same_bits_again():
    one, other = Group(dropping), Group(dropping)
    assert one.train() == other.train()
    assert one.models.tobytes() == other.models.tobytes()


def test_only_so_many_peers_are_trained_at_once(monkeypatch):
    group, sizes = Group(peers_at_once=2), []
    right = BatchedTrainer._train
    monkeypatch.setattr(
        BatchedTrainer, "_train", lambda self, jobs: (sizes.append(len(jobs)), right(self, jobs))[1]
    )
    group.train()
    assert sizes == [2, 2, 1]


def test_as_many_peers_are_trained_at_once_as_memory_holds(monkeypatch):
    group, sizes = Group(), []
    group.trainer._budget = 3 * group.trainer._training_bytes(SIZE)
    right = group.trainer._train
    monkeypatch.setattr(
        group.trainer, "_train", lambda jobs: (sizes.append(len(jobs)), right(jobs))[1]
    )
    group.train()
    assert sizes == [3, 2]


def test_what_does_not_fit_into_memory_is_tried_again_with_half_as_many(monkeypatch):
    group, untroubled, sizes = Group(), Group(peers_at_once=2), []
    right = StackedModule.gradients

    def scarce(self, trained, *rest):
        """Run out of memory with more than two peers, in the middle of a training."""
        sizes.append(len(next(iter(trained.values()))))
        if sizes[-1] > 2 and len(sizes) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return right(self, trained, *rest)

    expected = untroubled.train()
    monkeypatch.setattr(StackedModule, "gradients", scarce)
    assert group.train() == expected
    assert sizes[:3] == [5, 5, 2]
    assert group.models.tobytes() == untroubled.models.tobytes()
    sizes.clear()
    group.train()
    assert set(sizes) == {1, 2}  # it is not tried with more again


def test_one_model_that_does_not_fit_into_memory_is_an_error_for_people(monkeypatch):
    def full(*_):
        raise RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)")

    group = Group()
    monkeypatch.setattr(StackedModule, "evaluate", full)
    with pytest.raises(TrainingError, match=r"'cpu' has too little memory.*training\.device = cpu"):
        group.evaluate(Samples(0, 0, 4))
    assert group.models.tobytes() == group.start.tobytes()


def test_a_module_that_fails_is_an_error_for_people(monkeypatch):
    def fail(*_):
        raise RuntimeError("cannot go on")

    group = Group()
    monkeypatch.setattr(StackedModule, "gradients", fail)
    with pytest.raises(TrainingError, match="cannot go on"):
        group.train()


def test_training_that_leaves_the_finite_numbers_gives_nan_for_that_peer_only():
    ours, theirs = pair()
    for group in (ours, theirs):
        group.models[1] = np.inf
    losses, expected = ours.train(), theirs.train()
    assert np.isnan(losses).tolist() == [False, True, False, False, False]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    others = [0, 2, 3, 4]
    np.testing.assert_allclose(ours.models[others], theirs.models[others], atol=1e-5)


def test_a_last_step_that_breaks_the_weights_is_noticed():
    """The loss is measured before the step, so it is still finite."""
    pool = a_pool(PEERS * SIZE, regression=True)
    pool.targets[:] = 1e4
    settings = {"batch_size": SIZE, "optimizer": "sgd", "learning_rate": 1e38}
    group = Group(regressing, regression=True, pools=[pool], **settings)
    assert all(np.isfinite(each.loss) for each in group.evaluate(Samples(0, 0, SIZE)))
    assert np.isnan(group.train(epochs=1)).all()


@pytest.mark.parametrize("build", MODULES)
def test_evaluations_are_those_of_each_model_alone(build):
    count = EVALUATION_BATCH + 9
    pools = [a_pool(count, seed=1), a_pool(8, seed=2)]
    ours, theirs = pair(build, pools=pools)
    samples = (
        Samples(0, 0, count),
        Samples(0, 20, 31),
        Samples(1, 2, 8),
        Samples(0, 0, count, np.array([30, 2, 5, 9, 260, 2])),
    )
    for mine, alone in zip(ours.evaluate(*samples), theirs.evaluate(*samples), strict=True):
        np.testing.assert_allclose(mine.losses, alone.losses, rtol=1e-4, atol=1e-6)
        assert mine.score == alone.score
        assert mine.losses.dtype == np.float32
    assert ours.models.tobytes() == ours.start.tobytes()


def test_chosen_rows_are_trained_alike():
    rows = [np.random.default_rng(n).permutation(PEERS * SIZE)[:7] for n in range(PEERS)]
    results = []
    for group in pair():
        jobs = [
            TrainJob(ModelReference("current", n), Samples(0, 0, PEERS * SIZE, mine), 2, n)
            for n, mine in enumerate(rows)
        ]
        results.append((group, group.trainer.train(jobs)))
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-4)
    assert_close(results[0][0], results[1][0])


def test_data_that_change_in_their_pool_are_seen():
    ours, theirs = pair()
    ours.train(), theirs.train()
    for group in (ours, theirs):
        group.pools[0].inputs[:] *= -1
        group.pools[0].targets[:] = (group.pools[0].targets + 1) % CLASSES
    np.testing.assert_allclose(ours.train(), theirs.train(), rtol=1e-3)
    assert_close(ours, theirs, 1e-4)
    for mine, alone in zip(
        ours.evaluate(Samples(0, 0, 20)), theirs.evaluate(Samples(0, 0, 20)), strict=True
    ):
        np.testing.assert_allclose(mine.losses, alone.losses, rtol=1e-2)


def test_no_jobs_are_no_work():
    group = Group()
    assert group.trainer.train([]) == []
    assert group.trainer.evaluate([]) == []
