"""Local buffers stay with their peer: not merged, not counted, and used for others' models."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import CLASSES, FEATURES, drifting_scenario
from torch import nn

from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.runtime.published_models import PublishedModels
from coterie.runtime.scoring import ScoreJob, score_models
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

PEERS = 4


def normalised() -> nn.Module:
    """Return a module whose statistics depend on the data alone, not on other layers."""
    return nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, CLASSES))


def finished(strategy: str, buffers: str, rounds: int = 2, trainer: str = "torch") -> Simulation:
    """Return a simulation after its last round; on one thread, there is nothing to close."""
    options = {"fetches": 2} if strategy == "dac" else {}
    training = {"buffers": buffers, "epochs": 1, "trainer": trainer}
    simulation = Simulation(
        drifting_scenario(PEERS, rounds),
        normalised,
        lambda: make_strategy(strategy, options),
        SimulationSettings(rounds=rounds, training=training),
        tell=lambda _: None,
    )
    while not simulation.finished:
        simulation.advance()
    return simulation


def statistics(simulation: Simulation) -> np.ndarray:
    """Return the running means and variances of all peers."""
    layout = simulation.state.layout
    parts = [slice(e.start, e.stop) for e in layout.entries if not e.trainable]
    return np.concatenate([simulation.state.current[:, part] for part in parts], axis=1)


def test_merging_leaves_local_buffers_alone():
    alone = statistics(finished("local", "local"))
    np.testing.assert_array_equal(statistics(finished("dac", "local")), alone)
    assert not np.array_equal(statistics(finished("dac", "exchanged")), alone)


def test_only_parameters_are_counted():
    for buffers, size in (("exchanged", 4 * FEATURES), ("local", 2 * FEATURES)):
        simulation = finished("dac", buffers)
        parameters = size + FEATURES * CLASSES + CLASSES
        assert simulation.state.exchanged.layout.num_bytes == 4 * parameters


@pytest.mark.parametrize("trainer", ["auto", "torch", "batched"])
def test_other_models_are_scored_with_the_scorers_own_buffers(trainer):
    simulation = finished("dac", "local", trainer=trainer)
    state = simulation.state
    mixed = state.published[0].copy()
    for part in state.layout.trainable_slices():
        mixed[part] = state.published[1][part]
    state.workspace.allocate("mixed", (1, state.layout.size))[0] = mixed
    trainer = state.trainer
    (expected,) = trainer.evaluate(
        [EvaluateJob(ModelReference("mixed", 0), state.samples[0].train)]
    )
    (scored,) = score_models(state, PublishedModels(state, []), [ScoreJob(1, 0, "loss")])
    (with_theirs,) = trainer.evaluate(
        [EvaluateJob(ModelReference("published", 1), state.samples[0].train)]
    )
    assert scored == expected.loss
    assert scored != with_theirs.loss


def test_weights_are_compared_without_local_buffers():
    simulation = finished("dac", "local")
    before = score_models(
        simulation.state, PublishedModels(simulation.state, []), [ScoreJob(1, 0, "distance")]
    )
    for entry in simulation.state.layout.entries:
        if not entry.trainable:
            simulation.state.published[1][entry.start : entry.stop] += 1
    assert (
        score_models(
            simulation.state, PublishedModels(simulation.state, []), [ScoreJob(1, 0, "distance")]
        )
        == before
    )


@pytest.mark.parametrize(("strategy", "is_same"), [("fedavg", False), ("central", True)])
def test_clients_keep_their_buffers_unless_their_data_are_pooled(strategy, is_same):
    simulation = finished(strategy, "local")
    found = statistics(simulation)
    assert np.array_equal(found[0], found[2]) == is_same
    assert not np.array_equal(found[0], statistics(finished("local", "local", rounds=0))[0])
    everything = np.ones(simulation.state.layout.size, bool)
    for entry in simulation.state.layout.entries:
        everything[entry.start : entry.stop] = entry.trainable
    models = simulation.state.current[:, everything]
    np.testing.assert_array_equal(models[0], models[2])
