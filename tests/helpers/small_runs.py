"""Small real data, modules, simulations and comparisons that many tests share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from torch import nn

from coterie.data.drift import MatrixDrift
from coterie.data.labelled_dataset import Dataset
from coterie.data.scenario import PeerSettings, Scenario
from coterie.data.shifts import LabelSwapShift
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES

FEATURES = 6
CLASSES = 3


def classify(rng: np.random.Generator, cluster: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points whose class is the largest of three features; clusters permute the classes."""
    points = rng.normal(size=(count, FEATURES)).astype(np.float32)
    return points, (points[:, :CLASSES].argmax(axis=1) + cluster) % CLASSES


def small_module() -> nn.Module:
    """Return a module with two layers."""
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def layered_module() -> nn.Module:
    """Return a module with a layer below its classifier."""
    below = nn.Sequential(nn.Unflatten(1, (1, FEATURES)), nn.Conv1d(1, 4, 3), nn.ReLU())
    return nn.Sequential(below, nn.Flatten(), nn.Linear(4 * (FEATURES - 2), CLASSES))


def drifting_scenario(num_peers: int = 4, rounds: int = 6) -> Scenario:
    """Two meanings of the labels; after three rounds the peers exchange them."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, FEATURES)).astype(np.float32)
    labels = points[:, :CLASSES].argmax(axis=1)
    data = Dataset(
        "points", points[:400], labels[:400], points[400:], labels[400:], ("a", "b", "c")
    )
    concepts = LabelSwapShift(swaps=((), ((0, 1),))).concepts([data], 0)
    drift = MatrixDrift(every=3, matrix=((0, 1), (1, 0)))
    peers = PeerSettings(count=num_peers, train_size=20, validation_size=10)
    return Scenario([data], concepts, peers, drift, rounds=rounds)


def drifting_simulation(strategy, **settings) -> Simulation:
    rounds = settings.setdefault("rounds", 6)
    return Simulation(
        drifting_scenario(rounds=rounds), small_module, strategy, SimulationSettings(**settings)
    )


def metrics_of(simulation: Simulation) -> pa.Table:
    recorder = Recorder()
    run_to_end(simulation, recorder)
    return recorder.table("metrics")


def assert_same_table(one: pa.Table, other: pa.Table) -> None:
    """Compare bit for bit; NaN equals NaN, which pyarrow's own comparison denies."""
    assert one.schema == other.schema
    for name in one.column_names:
        np.testing.assert_array_equal(
            one[name].to_numpy(zero_copy_only=False),
            other[name].to_numpy(zero_copy_only=False),
            err_msg=name,
        )


def options_for(name: str, num_asked: int) -> dict[str, int]:
    """Return options with which a strategy fits a small network: it asks so many peers."""
    known = STRATEGIES[name]().options()
    return {key: num_asked for key in ("fetches", "samples") if key in known}
