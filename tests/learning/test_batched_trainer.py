"""Many peers at once, on the CPU: the same as one after another, but for roundings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch_bench import a_pool, counting, deep, dropping, normalised, regressing
from worlds import CLASSES, FEATURES, drifting_world, metrics_of, small_module

from coterie.config import build_model, make_scenario
from coterie.data.pools import Pool, Samples
from coterie.errors import ConfigError, TrainingError
from coterie.learning import choice
from coterie.learning.batched_trainer import BatchedTrainer
from coterie.learning.device import CPU, choose_device
from coterie.learning.keyed_dropout import KeyedDropout
from coterie.learning.native.program import Unsupported
from coterie.learning.stacked_module import StackedModule, StackedTraining, views
from coterie.learning.torch_trainer import EVALUATION_BATCH, TorchTrainer
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    ModelReference,
    Trainer,
    TrainingSettings,
    TrainJob,
    Workspace,
)
from coterie.models.vector import FlatModule, initial_vector
from coterie.presets import find_preset
from coterie.simulation.settings import SimulationSettings
from coterie.simulation.simulator import Simulation
from coterie.strategies.random import Random

PEERS, SIZE = 5, 10


class Group:
    """Peers with models and data of their own, and one trainer for all of them."""

    def __init__(
        self,
        build: Callable[[], nn.Module] = deep,
        *,
        batched: bool = True,
        pools: list[Pool] | None = None,
        regression: bool = False,
        **settings: object,
    ) -> None:
        self.pools = pools or [a_pool(PEERS * SIZE, regression=regression)]
        self.models = np.stack([initial_vector(build, number) for number in range(PEERS)])
        self.start = self.models.copy()
        workspace = Workspace(self.pools, {"current": self.models})
        training = TrainingSettings(**{"batch_size": 4, "learning_rate": 0.02, **settings})
        self.trainer: Trainer = (
            BatchedTrainer(build, training, workspace, CPU, is_classification=not regression)
            if batched
            else TorchTrainer(build, training, workspace, is_classification=not regression)
        )

    def train(
        self, sizes: list[int] | None = None, *, epochs: int = 2, last_layers: int | None = None
    ) -> list[float]:
        samples = [
            Samples(0, number * SIZE, number * SIZE + size)
            for number, size in enumerate(sizes or [SIZE] * PEERS)
        ]
        return self.trainer.train(
            [
                TrainJob(ModelReference("current", n), mine, epochs, 100 + n, last_layers)
                for n, mine in enumerate(samples)
            ]
        )

    def evaluate(self, *samples: Samples) -> list[Evaluation]:
        """Evaluate every model on all these samples."""
        return self.trainer.evaluate(
            [EvaluateJob(ModelReference("current", n), s) for n in range(PEERS) for s in samples]
        )


def pair(build: Callable[[], nn.Module] = deep, **settings: object) -> tuple[Group, Group]:
    """Return the same peers twice: trained at once, and one after another."""
    return Group(build, **settings), Group(build, batched=False, **settings)


def assert_close(ours: Group, theirs: Group, tolerance: float = 2e-5) -> None:
    assert np.abs(theirs.models - theirs.start).max() > 100 * tolerance
    np.testing.assert_allclose(ours.models, theirs.models, atol=tolerance)


def image_network() -> nn.Module:
    """Return a small network of what image networks are made of."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d((1, 2), 1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


class Tied(nn.Module):
    """Uses one matrix twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.second = nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(inputs)))))


class Remembering(nn.Module):
    """Replaces a float buffer instead of writing into it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("mean", torch.zeros(FEATURES))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * inputs.mean(dim=0)
        return self.linear(inputs - self.mean)


def half_frozen() -> nn.Module:
    module = deep()
    module[2].requires_grad_(False)
    return module


MODULES = [small_module, deep, normalised, image_network, Tied, Remembering, half_frozen]
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
    stacked = StackedModule(build(), CPU, is_classification=True)
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
        outputs = flat.module.train()(torch.from_numpy(pool.inputs[rows[number]]))
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
    assert mine.correct is None


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
    with pytest.raises(TrainingError, match=r"'cpu' does not suffice.*training\.device = cpu"):
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
        np.testing.assert_array_equal(mine.correct, alone.correct)
        assert (mine.losses.dtype, mine.correct.dtype) == (np.float32, np.bool_)
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


def test_dropout_follows_from_the_bits_of_a_job_alone():
    together, alone = Group(dropping), Group(dropping)
    before = torch.get_rng_state()
    losses = together.train()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # whatever else torch draws
    job = TrainJob(ModelReference("current", 3), Samples(0, 30, 40), 2, 103)
    assert alone.trainer.train([job])[0] == pytest.approx(losses[3], rel=1e-5)
    np.testing.assert_allclose(alone.models[3], together.models[3], atol=1e-5)
    other = TrainJob(ModelReference("current", 4), Samples(0, 30, 40), 2, 104)
    alone.models[4] = alone.start[3]
    assert abs(alone.trainer.train([other])[0] - losses[3]) > 1e-4


def test_dropout_has_another_key_in_every_step_and_for_every_peer(monkeypatch):
    seen, right = [], StackedTraining.step

    def step(self, inputs, targets, keys):
        seen.extend(tuple(key) for key in keys[:, 0].tolist())
        return right(self, inputs, targets, keys)

    group = Group(dropping)
    monkeypatch.setattr(StackedTraining, "step", step)
    group.train(epochs=3)
    assert len(seen) == len(set(seen)) == PEERS * 3 * 3
    assert all(0 <= word < 2**32 for key in seen for word in key)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_keyed_dropout_keeps_its_share_and_the_mean(probability):
    layer, ones = KeyedDropout(probability), torch.ones(200, 500)
    assert torch.equal(layer.eval()(ones), ones)
    dropped = layer.train()(ones)
    share = (dropped == 0).double()
    assert abs(share.mean().item() - probability) < 0.01
    if 0 < probability < 1:
        # Rows and columns are alike, and another key gives another mask.
        assert (share.mean(dim=0) - probability).abs().max() < 0.2
        assert (share.mean(dim=1) - probability).abs().max() < 0.12
        assert dropped.max().item() == pytest.approx(1 / (1 - probability))
        masks = [share]
        for key in ([1, 0], [0, 1], [2**32 - 1, 0]):
            layer.key = torch.tensor(key)
            masks.append((layer(ones) == 0).double())
        agreement = probability**2 + (1 - probability) ** 2
        for number, one in enumerate(masks):
            for other in masks[:number]:
                assert abs((one == other).double().mean().item() - agreement) < 0.01


@pytest.mark.parametrize(
    "build",
    [
        counting,  # its running mean needs a number of batches that is known in Python
        lambda: nn.Sequential(nn.Linear(FEATURES, 8), nn.AlphaDropout(0.5), nn.Linear(8, CLASSES)),
    ],
)
def test_what_cannot_be_trained_at_once_is_found_out_beforehand(build):
    with pytest.raises(Unsupported, match=r"torch\.func cannot run it"):
        Group(build)


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """What was said; every test starts as if nothing had been said yet."""
    monkeypatch.setattr(choice, "_told", set())
    return []


@pytest.fixture
def a_gpu(monkeypatch) -> None:
    """Let torch believe that there is one; nothing is computed on it."""
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def make(told, build=small_module, **training) -> Trainer:
    models = initial_vector(build, 1)[None]
    return choice.make_trainer(
        build,
        TrainingSettings(**training),
        Workspace([a_pool(10)], {"current": models}),
        threads=1,
        is_classification=True,
        tell=told.append,
    )


def test_the_settings_decide(told):
    assert make(told, trainer="batched").name == "batched cpu"
    assert make(told, trainer="batched", device="cpu").name == "batched cpu"
    assert make(told, trainer="torch", device="cpu").name == "torch"
    assert told == []


def test_who_insists_on_the_batched_trainer_gets_an_error(told):
    with pytest.raises(ConfigError, match=r"batched trainer cannot.*training\.trainer = auto"):
        make(told, counting, trainer="batched")


@pytest.mark.usefixtures("a_gpu")
def test_on_a_gpu_what_cannot_be_trained_at_once_is_trained_on_the_cpu_and_that_is_said(
    told, monkeypatch
):
    monkeypatch.setattr(choice, "choose_device", lambda wanted: torch.device("meta"))
    for _ in range(2):
        assert make(told, counting).name == "torch"
    assert told[0].startswith("Training on the CPU instead of meta: torch.func cannot run it (")
    assert len(told) == 2  # the other one says why it is torch, not compiled code


@pytest.mark.usefixtures("a_gpu")
def test_auto_means_a_gpu_if_there_is_one(monkeypatch):
    assert choose_device("auto").type == "cuda"
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto").type == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigError, match=r"no such device here, only: cpu\. Check its driver"):
        choose_device("cuda")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_torch_does_not_know_is_an_error_for_people(told, monkeypatch, device):
    monkeypatch.setattr(getattr(torch.backends, device), "is_built", lambda: False)
    with pytest.raises(ConfigError, match=rf"device = {device}, but torch .* without support"):
        make(told, device=device)


@pytest.mark.parametrize("trainer", ["native", "torch"])
@pytest.mark.usefixtures("a_gpu")
def test_a_trainer_for_the_cpu_does_not_train_elsewhere(told, trainer):
    assert make(told, trainer=trainer).name.split()[0] == trainer
    with pytest.raises(ConfigError, match=f"trainer = {trainer} trains on the CPU only"):
        make(told, trainer=trainer, device="cuda")


def test_whole_runs_with_drift_end_close_together(told):
    results, saved = [], []
    for trainer in ("batched", "torch"):
        settings = SimulationSettings(rounds=6, training=TrainingSettings(trainer=trainer))
        with Simulation(
            drifting_world(), small_module, lambda: Random(fetches=2), settings, tell=told.append
        ) as simulation:
            metrics = metrics_of(simulation)
            results.append((simulation.best_models(), metrics["test_loss"].to_numpy()))
            saved.append(simulation.save()["trainer"])
    assert saved == ["batched cpu", "torch"]
    np.testing.assert_allclose(results[0][0], results[1][0], atol=2e-3)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-3)
    assert told == []


def test_a_whole_run_on_digits_ends_close_to_that_of_torch():
    accuracies, models = [], []
    for trainer in ("batched", "torch"):
        changes = {"peers.count": 8, "rounds": 3, "training.trainer": trainer}
        [config] = find_preset("digits").runs(["oracle"], [0], changes)
        world = make_scenario(config)
        with Simulation(
            world,
            lambda world=world, config=config: build_model(config, world.num_outputs),
            lambda: Random(fetches=2),
            config,
        ) as simulation:
            accuracies.append(metrics_of(simulation)["test_accuracy"].to_numpy()[-8:])
            models.append(simulation.best_models())
    np.testing.assert_allclose(models[0], models[1], atol=5e-3)
    np.testing.assert_allclose(accuracies[0], accuracies[1], atol=0.01)


def test_a_run_continued_with_another_trainer_says_so(make_simulation):
    heard = []
    with make_simulation(Random, training=TrainingSettings(trainer="batched")) as simulation:
        simulation.advance()
        saved = simulation.save()
    with make_simulation(Random, training=TrainingSettings(trainer="torch")) as simulation:
        simulation._tell = heard.append
        simulation.restore(saved)
    assert "begun with the trainer 'batched cpu' and goes on with 'torch'" in heard[0]
