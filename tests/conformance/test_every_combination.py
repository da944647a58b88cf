"""Every strategy with every trainer, number of threads and front end gives the same bits.

The parts are tested elsewhere; here it is their combinations, on a scenario that is as small as it
can be and yet has two clusters, drift and a poisoned peer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import coterie
from small_runs import CLASSES, FEATURES, assert_same_table, classify
from torch import nn

import coterie as library
from coterie.errors import CoterieError
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.runtime.run_tables import read_table
from coterie.storage.tensor_files import map_tensor
from coterie.strategies import DEFAULT_STRATEGY, STRATEGIES
from coterie.strategies.options import PEER_COUNTS
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.swarm.check_settings import adapt_for_real_peers
from coterie.swarm.run_swarm import execute_by_peers

TRAINERS = ("native", "torch", "batched")
NEEDS_TRUTH = [name for name, kind in STRATEGIES.items() if kind.uses_ground_truth]
WITH_SERVER = [name for name, kind in STRATEGIES.items() if issubclass(kind, ServerStrategy)]
WITH_PEERS = [name for name in STRATEGIES if name not in WITH_SERVER]
FOR_REAL_PEERS = [name for name in STRATEGIES if name not in (*WITH_SERVER, *NEEDS_TRUTH)]
ASKS_PEERS = [
    name
    for name, kind in STRATEGIES.items()
    if name not in WITH_SERVER and "fetches" in kind().options()
]
# All phases of a strategy within three rounds.
SHORT = {
    "pens": {"exploration_rounds": 2, "samplings": 2, "exploration_epochs": 1},
    "panm": {"confident_rounds": 2},
    "delusional-oracle": {"from_round": 2},
}
POISON = {"kind": "sign-flip", "count": 1}
TABLES = ("metrics", "exchanges", "neighbours")
THREADS = (1, None) if os.cpu_count() == 2 else (1, 2, None)
"""Where there are two cores, the default is two threads."""


def settings(*strategies: str, trainer: str) -> dict[str, object]:
    """Return dotted settings of a tiny experiment; a server has no peers to poison."""
    short = [SHORT.get(strategy, {}).items() for strategy in strategies]
    poison = {} if {*strategies} & {*WITH_SERVER} else POISON
    return {
        "peers.count": 6,
        "peers.train_size": 8,
        "peers.validation_size": 8,
        "rounds": 3,
        "shift": {"kind": "rotation", "angles": [0, 180]},
        "drift": {"kind": "random", "every": 2},
        "training.epochs": 1,
        "training.trainer": trainer,
        "test_every": 10,
        **{f"strategy.{name}": value for options in short for name, value in options},
        **{f"poison.{name}": value for name, value in poison.items()},
    }


def run_by_command(folder: Path, strategies: Sequence[str], trainer: str, *options: object) -> None:
    changes = (f"{key}={value}" for key, value in settings(*strategies, trainer=trainer).items())
    sets = (word for change in changes for word in ("--set", change))
    named = ("--strategy", ",".join(strategies))
    answer = coterie("run", "digits", *named, *sets, *options, "--out", folder)
    assert answer.code == 0, answer.err


def assert_same_runs(one: Path, other: Path) -> None:
    for name in TABLES:
        assert_same_table(read_table(one, name), read_table(other, name))
    np.testing.assert_array_equal(
        *(map_tensor(run / "models.safetensors", "best") for run in (one, other))
    )


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("strategies", [WITH_PEERS, WITH_SERVER], ids=["peers", "server"])
def test_commands_give_the_same_bits(tmp_path, strategies, trainer):
    """All strategies in one command: one after another, two at a time, on one thread and two."""
    ways = {
        "one": ("--threads", 1),
        "both": ("--threads", 2, "--side-by-side", 2),
    }
    if trainer == "torch":  # the only one whose threads are processes
        ways["processes"] = ("--threads", 2, "--side-by-side", 1)
    for name, options in ways.items():
        run_by_command(tmp_path / name, strategies, trainer, *options)
    for run in (f"{strategy}-seed0" for strategy in strategies):
        assert read_table(tmp_path / "one" / run, "metrics").num_rows == 4 * 6
        for name in ways:
            assert_same_runs(tmp_path / "one" / run, tmp_path / name / run)


def covered() -> nn.Module:
    """Return a module that the compiled trainer covers."""
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def not_covered() -> nn.Module:
    """Return a module that only torch can train."""
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ELU(), nn.LayerNorm(8), nn.Linear(8, CLASSES))


MODULES = {"native": covered, "torch": covered, "auto": not_covered, "batched": not_covered}


def own_peers(num_peers: int = 6) -> list[library.PeerData]:
    rng = np.random.default_rng(0)
    return [
        library.PeerData(*(classify(rng, peer % 2, n) for n in (16, 12, 20)))
        for peer in range(num_peers)
    ]


@pytest.mark.parametrize("trainer", MODULES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_library_gives_the_same_bits(strategy, trainer):
    chosen = library.SimulationSettings(
        rounds=3,
        training={"trainer": trainer, "epochs": 1},
        poison={} if strategy in WITH_SERVER else POISON,
    )
    one, *others = (
        library.simulate(
            MODULES[trainer],
            own_peers(),
            strategy,
            chosen,
            clusters=[0, 1] * 3,
            threads=threads,
        )
        for threads in THREADS
    )
    for other in others:
        assert_same_table(one.metrics, other.metrics)
        assert_same_table(one.exchanges, other.exchanges)
        np.testing.assert_array_equal(one.models, other.models)


@pytest.mark.network
@pytest.mark.parametrize("strategy", FOR_REAL_PEERS)
def test_a_swarm_that_trains_with_torch_gives_the_bits_of_a_simulation(tmp_path, strategy):
    changes = settings(strategy, trainer="torch") | {"peers.count": 2}
    changes = {key: value for key, value in changes.items() if not key.startswith("poison")}
    (config,) = find_preset("digits").runs([strategy], [0], changes)
    simulated = Experiment.create(tmp_path / "simulated", [config])
    simulated.run(threads=2)
    by_peers, _ = adapt_for_real_peers(config, {}, own_pace=False)
    real = Experiment.create(tmp_path / "real", [by_peers])
    real.run(threads=1, execute=partial(execute_by_peers, keep_peers=False))
    one, other = simulated.runs[0].folder, real.runs[0].folder
    assert_same_table(read_table(one, "metrics"), read_table(other, "metrics"))
    np.testing.assert_array_equal(
        *(map_tensor(run / "models.safetensors", "best") for run in (one, other))
    )


class Frozen(nn.Module):
    """Has a first layer that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)
        self.body.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(inputs)))


OWN_MODULES = {
    "gelu": lambda: nn.Sequential(nn.Linear(FEATURES, 8), nn.GELU(), nn.Linear(8, CLASSES)),
    "layer norm": not_covered,
    "batch norm": lambda: nn.Sequential(
        nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)
    ),
    "frozen": Frozen,
    "linear": lambda: nn.Linear(FEATURES, CLASSES),
}


@pytest.mark.parametrize("name", OWN_MODULES)
def test_own_modules_train_with_every_default(name):
    result = library.simulate(
        OWN_MODULES[name], own_peers(), settings=library.SimulationSettings(rounds=2)
    )
    assert result.summary.label == DEFAULT_STRATEGY
    assert (result.test_score > 0).all()


def test_a_bare_linear_layer_regresses_with_every_default():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=30).astype(np.float32)

    def part(count: int) -> tuple[np.ndarray, np.ndarray]:
        inputs = rng.normal(size=(count, 30)).astype(np.float32)
        return inputs, inputs @ weights

    peers = [library.PeerData(part(40), part(20), part(20)) for _ in range(6)]
    chosen = library.SimulationSettings(rounds=20, training={"learning_rate": 0.03})
    result = library.simulate(lambda: nn.Linear(30, 1), peers, settings=chosen)
    assert (result.test_loss < 1.0).all(), "predicting the mean has about 30"


@pytest.mark.parametrize("num_peers", [1, 2, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_few_peers_ask_all_there_are(strategy, num_peers, capsys):
    result = library.simulate(
        covered,
        own_peers(num_peers),
        strategy,
        library.SimulationSettings(rounds=3, training={"epochs": 1}),
        clusters=[0] * num_peers,
        threads=1,
    )
    assert np.isfinite(result.test_loss).all()
    most = num_peers if strategy in WITH_SERVER else num_peers - 1
    options = STRATEGIES[strategy]().options()
    too_many = any(value > most for name, value in options.items() if name in PEER_COUNTS)
    assert capsys.readouterr().out.count("There ") == too_many


@pytest.mark.parametrize("strategy", ASKS_PEERS)
def test_more_peers_than_there_are_cannot_be_asked_for(strategy):
    with pytest.raises(CoterieError, match=r"strategy\.fetches is 4, but"):
        library.simulate(covered, own_peers(4), partial(STRATEGIES[strategy], fetches=4))
