"""The device of a run, the messages about it, and whole runs with many peers at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from batched_bench import Group, Remembering, image_network
from commands import SMALL, coterie, refused
from small_runs import CLASSES, FEATURES, drifting_scenario, metrics_of, small_module
from torch import nn
from torch_bench import a_pool, counting, deep, dropping, normalised

from coterie.data.pools import Samples
from coterie.errors import ConfigError, TrainingError
from coterie.experiments.config import build_model, make_scenario
from coterie.experiments.presets import find_preset
from coterie.learning import stacked_module, trainer_choice
from coterie.learning.device import choose_device
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import Trainer, Unsupported, Workspace
from coterie.models.vector import initial_vector
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies.random import Random
from coterie.tasks import Task


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
def messages(monkeypatch) -> list[str]:
    """What was said; every test starts as if nothing had been said yet."""
    monkeypatch.setattr(trainer_choice, "_shown", set())
    return []


@pytest.fixture
def a_gpu(monkeypatch) -> None:
    """Let torch report such a device; nothing is computed on it."""
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def make(messages, build=small_module, **training) -> Trainer:
    models = initial_vector(build, 1)[None]
    return trainer_choice.make_trainer(
        build,
        TrainingSettings(**training),
        Workspace([a_pool(10)], {"current": models}),
        Task(),
        threads=1,
        tell=messages.append,
    )


def test_the_settings_decide(messages):
    assert make(messages, trainer="batched").name == "batched cpu"
    assert make(messages, trainer="batched", device="cpu").name == "batched cpu"
    assert make(messages, trainer="torch", device="cpu").name == "torch"
    assert messages == []


def test_the_batched_trainer_must_fit_if_it_is_set(messages):
    with pytest.raises(ConfigError, match=r"batched trainer cannot.*training\.trainer = auto"):
        make(messages, counting, trainer="batched")


@pytest.mark.usefixtures("a_gpu")
def test_on_a_gpu_what_cannot_be_trained_at_once_is_trained_on_the_cpu_and_that_is_said(
    messages, monkeypatch
):
    monkeypatch.setattr(trainer_choice, "choose_device", lambda wanted: torch.device("meta"))
    for _ in range(2):
        assert make(messages, counting).name == "torch"
    assert messages[0].startswith("Training on the CPU instead of meta: torch.func cannot run it (")
    assert len(messages) == 2  # the other one says why it is torch, not compiled code


@pytest.mark.parametrize("build", [deep, normalised, dropping, image_network, Remembering])
def test_nothing_is_computed_elsewhere_than_on_the_device(monkeypatch, build):
    """torch's device without memory refuses tensors of others, and to give back what it has not."""
    monkeypatch.setattr(
        stacked_module, "make_optimizer", lambda _, tensors: torch.optim.Adam(tensors)
    )
    group = Group(build, device=torch.device("meta"))
    with pytest.raises(TrainingError, match="Cannot copy out of meta tensor"):
        group.train()
    with pytest.raises(TrainingError, match="Cannot copy out of meta tensor"):
        group.evaluate(Samples(0, 0, 4))


@pytest.mark.usefixtures("a_gpu")
def test_auto_means_a_gpu_if_there_is_one(monkeypatch):
    assert choose_device("auto").type == "cuda"
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto").type == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigError, match=r"only these devices: cpu\. Check the driver"):
        choose_device("cuda")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_torch_does_not_know_is_an_error_for_users(messages, monkeypatch, device):
    monkeypatch.setattr(getattr(torch.backends, device), "is_built", lambda: False)
    with pytest.raises(ConfigError, match=rf"device = {device}, but torch .* without support"):
        make(messages, device=device)


@pytest.mark.parametrize(
    "options", [("--device", "cuda"), ("--device", "cuda", "--trainer", "torch")]
)
def test_a_device_that_cannot_be_is_refused_before_there_is_a_folder(
    tmp_path, monkeypatch, options
):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    refused(coterie("run", *SMALL, *options, "--out", tmp_path / "out"), 2, "training.device")
    assert not (tmp_path / "out").exists()


def test_the_device_and_the_trainer_can_be_chosen_on_the_command_line(tmp_path):
    options = ("--device", "cpu", "--trainer", "batched", "--set", "training.peers_at_once=3")
    assert coterie("run", *SMALL, *options, "--out", tmp_path / "out").code == 0
    written = (tmp_path / "out" / "random-seed0" / "config.yaml").read_text()
    assert "  trainer: batched\n  device: cpu\n  peers_at_once: 3\n" in written


@pytest.mark.parametrize("trainer", ["native", "torch"])
@pytest.mark.usefixtures("a_gpu")
def test_a_trainer_for_the_cpu_does_not_train_elsewhere(messages, trainer):
    assert make(messages, trainer=trainer).name.split()[0] == trainer
    with pytest.raises(ConfigError, match=f"trainer = {trainer} trains only on the CPU"):
        make(messages, trainer=trainer, device="cuda")


def test_whole_runs_with_drift_end_close_together(messages):
    results, saved = [], []
    for trainer in ("batched", "torch"):
        settings = SimulationSettings(rounds=6, training=TrainingSettings(trainer=trainer))
        with Simulation(
            drifting_scenario(),
            small_module,
            lambda: Random(fetches=2),
            settings,
            tell=messages.append,
        ) as simulation:
            metrics = metrics_of(simulation)
            results.append((simulation.best_models(), metrics["test_loss"].to_numpy()))
            saved.append(simulation.save()["trainer"])
    assert saved == ["batched cpu", "torch"]
    np.testing.assert_allclose(results[0][0], results[1][0], atol=2e-3)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-3)
    assert messages == []


def test_a_whole_run_on_digits_ends_close_to_that_of_torch():
    accuracies, models = [], []
    for trainer in ("batched", "torch"):
        changes = {"peers.count": 8, "rounds": 3, "training.trainer": trainer}
        [config] = find_preset("digits").runs(["oracle"], [0], changes)
        scenario = make_scenario(config)
        with Simulation(
            scenario,
            lambda scenario=scenario, config=config: build_model(config, scenario.num_outputs),
            lambda: Random(fetches=2),
            config,
        ) as simulation:
            accuracies.append(metrics_of(simulation)["test_score"].to_numpy()[-8:])
            models.append(simulation.best_models())
    np.testing.assert_allclose(models[0], models[1], atol=5e-3)
    np.testing.assert_allclose(accuracies[0], accuracies[1], atol=0.01)


def test_a_run_continued_with_another_trainer_says_so(make_simulation):
    messages = []
    with make_simulation(Random, training=TrainingSettings(trainer="batched")) as simulation:
        simulation.advance()
        saved = simulation.save()
    with make_simulation(Random, training=TrainingSettings(trainer="torch")) as simulation:
        simulation._tell = messages.append
        simulation.restore(saved)
    assert "started with the trainer 'batched cpu' and continues with 'torch'" in messages[0]
