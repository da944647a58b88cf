"""The trainer of a run: compiled if possible, otherwise torch; and the messages about it."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from small_runs import FEATURES, drifting_scenario, metrics_of, small_module
from torch import nn
from torch_bench import a_pool, deep

from coterie.data.pools import Samples
from coterie.errors import ConfigError
from coterie.learning import trainer_choice
from coterie.learning.native import library
from coterie.learning.native.native_trainer import NativeTrainer
from coterie.learning.parallel_trainer import ParallelTrainer
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import ModelReference, TrainJob, Workspace
from coterie.models.vector import initial_vector
from coterie.processes.shared_memory import shared_array
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies.random import Random
from coterie.tasks import Task

WITHOUT = "the compiled trainer was not built"


@pytest.fixture
def messages(monkeypatch) -> list[str]:
    """What was said; every test starts as if nothing had been said yet."""
    monkeypatch.setattr(trainer_choice, "_shown", set())
    return []


@pytest.fixture
def without_library(monkeypatch) -> None:
    monkeypatch.setattr(trainer_choice, "find_library", lambda: WITHOUT)


CLASSES = Task()


def make(build, messages, trainer="auto", *, threads=1, pool=None, task=CLASSES):
    start = initial_vector(build, 7)
    models = shared_array((2, len(start)), np.float32)  # forked workers write there, too
    models[:] = start
    made = trainer_choice.make_trainer(
        build,
        TrainingSettings(trainer=trainer),
        Workspace([pool or a_pool(10)], {"current": models}),
        task,
        threads=threads,
        tell=messages.append,
    )
    return made, models


JOBS = [TrainJob(ModelReference("current", row), Samples(0, 0, 10), 2, 5 + row) for row in range(2)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_where_there_is_a_compiler_there_is_the_library():
    """Otherwise all other tests of it would be skipped unnoticed."""
    assert isinstance(library.find_library(), library.Library)


@pytest.mark.parametrize(
    ("trainer", "threads", "kind"),
    [
        ("auto", 1, NativeTrainer),
        ("native", 3, NativeTrainer),
        ("torch", 1, TorchTrainer),
        ("torch", 2, ParallelTrainer),
    ],
)
def test_the_setting_decides(messages, trainer, threads, kind):
    made, models = make(small_module, messages, trainer, threads=threads)
    before = models.copy()
    assert type(made) is kind
    losses = made.train(JOBS[:1])
    assert np.isfinite(losses[0])
    assert (models[0] != before[0]).any()
    made.close()
    assert messages == []


def test_both_trainers_have_the_same_layout(messages):
    layouts = [make(small_module, messages, trainer)[0].layout for trainer in ("native", "torch")]
    assert layouts[0].fingerprint == layouts[1].fingerprint


@pytest.mark.parametrize(("threads", "kind"), [(1, TorchTrainer), (2, ParallelTrainer)])
def test_an_unsupported_model_is_trained_with_torch_and_that_is_said_once(messages, threads, kind):
    for _ in range(3):
        made, _ = make(deep, messages, threads=threads)
        assert type(made) is kind
        made.close()
    instead = "Training with torch instead of the compiled trainer"
    assert messages == [f"{instead}: '1' is a Softsign, which is not supported."]
    make(lambda: nn.Sequential(nn.Linear(FEATURES, 3), nn.Hardtanh()), messages)
    assert messages[1:] == [f"{instead}: '1' is a Hardtanh, which is not supported."]


def test_a_wish_for_torch_shows_no_message(messages):
    make(deep, messages, "torch")
    assert messages == []


def test_the_compiled_trainer_must_fit_if_it_is_set(messages):
    with pytest.raises(
        ConfigError,
        match=r"'1' is a Softsign, which is not supported\. Use training\.trainer = auto or torch",
    ):
        make(deep, messages, "native")
    assert messages == []


@pytest.mark.parametrize("trainer", ["auto", "native", "torch"])
def test_a_model_that_does_not_fit_the_data_is_refused_by_all(messages, trainer):
    with pytest.raises(ConfigError, match="fails on a sample"):
        make(lambda: nn.Sequential(nn.Linear(FEATURES + 1, 3)), messages, trainer)
    with pytest.raises(ConfigError, match="at least 3"):
        make(lambda: nn.Sequential(nn.Linear(FEATURES, 2)), messages, trainer)


def test_log_softmax_is_left_to_torch_in_a_regression(messages):
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 1), nn.LogSoftmax(1))

    pool = a_pool(10, regression=True)
    made, _ = make(build, messages, pool=pool, task=Task("mse"))
    assert type(made) is TorchTrainer
    assert "always zero" in messages[0]


def test_a_wrong_translation_is_not_used(messages, monkeypatch):
    """Only the comparison with torch's gradient stands between a mistake and a run."""
    right = trainer_choice.translate_module

    def wrong(*arguments):
        first, *rest = right(*arguments)
        return [replace(first, relu=False), *rest]

    monkeypatch.setattr(trainer_choice, "translate_module", wrong)
    made, _ = make(small_module, messages)
    assert type(made) is TorchTrainer
    assert messages == [
        "Training with torch instead of the compiled trainer: the compiled gradient of "
        "'0.weight' differs from torch's."
    ]
    with pytest.raises(ConfigError, match="differs from torch's"):
        make(small_module, messages, "native")


@pytest.mark.usefixtures("without_library")
def test_without_the_library_torch_trains(messages):
    made, models = make(small_module, messages)
    assert type(made) is TorchTrainer
    assert messages == [f"Training with torch instead of the compiled trainer: {WITHOUT}."]
    expected, others = make(small_module, messages, "torch")
    assert made.train(JOBS) == expected.train(JOBS)
    assert models.tobytes() == others.tobytes()
    with pytest.raises(ConfigError, match="not built"):
        make(small_module, messages, "native")


def simulate(messages, **training):
    settings = SimulationSettings(rounds=6, training=TrainingSettings(**training))
    with Simulation(
        drifting_scenario(), small_module, lambda: Random(fetches=2), settings, tell=messages.append
    ) as simulation:
        return metrics_of(simulation), simulation.best_models()


@pytest.mark.usefixtures("without_library")
def test_without_the_library_a_whole_run_is_that_of_torch(messages):
    without, by_torch = simulate(messages), simulate(messages, trainer="torch")
    assert len(messages) == 1
    assert without[1].tobytes() == by_torch[1].tobytes()


def test_whole_runs_of_both_trainers_end_close_together(messages):
    """They see the same batches in the same order; only roundings differ."""
    native, by_torch = simulate(messages, trainer="native"), simulate(messages, trainer="torch")
    assert messages == []
    np.testing.assert_allclose(native[1], by_torch[1], atol=2e-3)
    assert native[1].tobytes() != by_torch[1].tobytes()


def test_a_library_that_cannot_be_loaded_is_no_library(tmp_path, monkeypatch):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"\x7fELF and nothing more")
    spec = type("Spec", (), {"origin": str(broken)})
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda _: spec)
    assert "cannot be loaded" in library.find_library.__wrapped__()
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda _: None)
    assert "was not built" in library.find_library.__wrapped__()
