"""Runs of models with a frozen part: same bits for all trainers, and only one backbone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_runs import CLASSES, FEATURES, drifting_scenario
from torch import nn

import coterie
from coterie.attacks.poison_settings import PoisonSettings
from coterie.data.pools import Samples
from coterie.errors import ConfigError
from coterie.learning.trainer import EvaluateJob, ModelReference, Workspace
from coterie.models.layout import Layout
from coterie.runtime.settings import SimulationSettings
from coterie.runtime.size_limits import check_models
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

TRAINED = 16 * CLASSES + CLASSES


def adapted() -> nn.Module:
    """Return a random backbone that is frozen, and a trained head."""
    backbone = nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.Tanh())
    return nn.Sequential(backbone.requires_grad_(False), nn.Linear(16, CLASSES))


def simulation(strategy: str = "dac", build=adapted, threads: int = 1, **settings) -> Simulation:
    options = {"fetches": 2} if strategy == "dac" else {}
    settings = {"rounds": 2, "training": {"epochs": 1}, **settings}
    return Simulation(
        drifting_scenario(4, settings["rounds"]),
        build,
        lambda: make_strategy(strategy, options),
        SimulationSettings(**settings),
        threads=threads,
        tell=lambda _: None,
    )


def models(**settings) -> np.ndarray:
    with simulation(**settings) as run:
        while not run.finished:
            run.advance()
        return run.state.current.copy()


def test_workers_give_the_same_bits():
    one, two = models(threads=1), models(threads=2)
    assert one.shape == (4, TRAINED)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("initialisation", ["common", "independent"])
def test_the_frozen_part_is_that_of_the_seed_whatever_was_drawn_before(initialisation):
    first = models(initialisation=initialisation)
    torch.manual_seed(5)
    torch.rand(7)
    np.testing.assert_array_equal(models(initialisation=initialisation), first)
    assert not np.array_equal(models(initialisation=initialisation, seed=1), first)


def test_the_batched_trainer_learns_the_same():
    training = {"epochs": 1, "trainer": "batched"}
    np.testing.assert_allclose(models(training=training), models(), atol=2e-5)


@pytest.mark.parametrize("kind", ["sign-flip", "noise", "stale", "label-flip"])
def test_poisoned_peers_forge_what_is_trained(kind):
    forged = models(poison=PoisonSettings(kind=kind, count=1))
    assert forged.shape == (4, TRAINED)
    assert np.isfinite(forged).all()


def test_servers_average_what_is_trained():
    assert models(strategy="fedavg").shape == (4, TRAINED)


def test_a_checkpoint_of_another_backbone_is_refused():
    def other() -> nn.Module:
        module = adapted()
        with torch.no_grad():
            module[0][0].weight.add_(1)
        return module

    with simulation() as run, simulation(build=other) as another, simulation() as again:
        run.advance()
        saved = run.save()
        with pytest.raises(ConfigError, match="other frozen parameters"):
            another.restore(saved)
        again.restore(saved)


def test_checkpoints_without_a_digest_are_of_models_that_are_trained_as_a_whole():
    def whole() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, CLASSES))

    with simulation(build=whole) as run, simulation(build=whole) as again:
        run.advance()
        saved = run.save()
        del saved["frozen"]
        again.restore(saved)


def test_the_compiled_trainer_says_why_it_does_not_train_them():
    def chain() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 4).requires_grad_(False), nn.Linear(4, CLASSES))

    with pytest.raises(ConfigError, match="some of its parameters are frozen"):
        simulation(build=chain, training={"trainer": "native"})


def test_the_frozen_part_counts_once_in_the_memory_of_a_run():
    check_models(4, 100, shared_bytes=10**6)
    with pytest.raises(ConfigError, match="At most 0 such peers fit"):
        check_models(4, 100, shared_bytes=10**16)


def test_saved_results_know_their_backbone(tmp_path):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(30, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, 30)
    settings = {"rounds": 1, "seed": 3, "training": {"epochs": 1}}
    result = coterie.simulate(adapted, [samples] * 3, {"name": "dac", "fetches": 2}, settings)
    result.save(tmp_path / "saved")
    loaded = coterie.Result.load(tmp_path / "saved", adapted)
    assert loaded.frozen_digest == result.frozen_digest != ""
    expected = result.predict(1, samples[0])
    np.testing.assert_array_equal(loaded.predict(1, samples[0]), expected)
    with pytest.warns(UserWarning, match="not those of the run"):
        loaded.load_into(adapted(), 1)


def test_jobs_may_take_the_buffers_of_another_model():
    layout = Layout.of(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))
    rows = np.stack([np.zeros(layout.size), np.ones(layout.size)]).astype(np.float32)
    workspace = Workspace([], {"all": rows})
    job = EvaluateJob(ModelReference("all", 0), Samples(0, 0, 1), buffers=ModelReference("all", 1))
    np.testing.assert_array_equal(
        workspace.evaluated(job, layout), [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    )
    assert rows.sum() == layout.size
