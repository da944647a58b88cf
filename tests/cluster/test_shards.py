"""A run in shards on a cluster: the bits of one process, also after a shard or a node was lost."""

from __future__ import annotations

import os
import signal
import time

import pytest
from cluster_runs import processes_of, results_of

from coterie.cluster import sharded_runs
from coterie.cluster.connection import connect
from coterie.cluster.engine import RayEngine
from coterie.errors import TrainingError, WorkerDied
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy

PEERS = [name for name, kind in STRATEGIES.items() if not issubclass(kind, ServerStrategy)]
SERVERS = [name for name in STRATEGIES if name not in PEERS]
TINY = {
    "peers.count": 7,
    "peers.train_size": 8,
    "peers.validation_size": 8,
    "rounds": 4,
    "training.epochs": 1,
    "drift": {"kind": "random", "every": 2},
    "network": {"offline_probability": 0.2, "loss_probability": 0.1},
    "test_every": 3,
}
POISON = {"poison": {"kind": "sign-flip", "count": 1}}
SHORT = {
    "pens": {"exploration_rounds": 2, "samplings": 2, "exploration_epochs": 1},
    "panm": {"confident_rounds": 2},
    "delusional-oracle": {"from_round": 2},
}


@pytest.fixture(scope="module")
def cluster(nodes):
    """Return the cluster with room for three shards."""
    third = nodes.add_node(num_cpus=1)
    with connect(nodes.address, lambda text: None) as info:
        yield info
    nodes.remove_node(third)


def configs_of(strategies, **changes):
    preset = find_preset("digits")
    for name in strategies:
        short = {f"strategy.{key}": value for key, value in SHORT.get(name, {}).items()}
        yield from preset.runs([name], [0], {**TINY, **short, **changes})


def run(folder, configs, engine=None, disturb=lambda now: None, tell=lambda text: None):
    experiment = Experiment.create(folder, list(configs))
    experiment.run(
        threads=1,
        engine=engine,
        on_round=lambda run, now: disturb(now),
        tell=tell,
    )
    return results_of(experiment)


def test_every_strategy_gives_the_bits_of_one_process(cluster, tmp_path):
    """With drift, poison and churn, in one, two and three shards."""
    every = [*configs_of(PEERS, **POISON), *configs_of(SERVERS)]
    expected = run(tmp_path / "local", every)
    for num_shards in (3, 2, 1):
        # tests/simulation/shards has every strategy in one and two shards too, without Ray.
        configs = every if num_shards == 3 else every[::5]
        engine = RayEngine(cluster, num_shards=num_shards)
        found = run(tmp_path / f"shards{num_shards}", configs, engine)
        engine.close()
        names = {name.partition("/")[0] for name in found}
        assert found == {k: v for k, v in expected.items() if k.partition("/")[0] in names}
        assert len(names) == len(configs)


def shard_processes():
    return processes_of("ShardActor")


def assert_no_shards_are_left():
    deadline = time.monotonic() + 20
    while shard_processes():
        assert time.monotonic() < deadline, "processes of shards are left"
        time.sleep(0.05)


@pytest.mark.parametrize("lost", ["process", "node"])
def test_a_run_continues_from_its_last_checkpoint_without_a_shard(nodes, cluster, tmp_path, lost):
    """At most one interval between checkpoints is computed twice; a node may join later."""
    configs = list(configs_of(["kin"], rounds=8, checkpoint_every=2))
    expected = run(tmp_path / "local", configs)
    # Four shards fill four nodes, so that the node to be removed has one.
    removed = nodes.add_node(num_cpus=1) if lost == "node" else None
    engine, rounds = RayEngine(cluster, num_shards=4 if removed else 2), []
    added, told = [], []

    def lose(now):
        rounds.append(now.round)
        if rounds == [*range(6)]:
            if removed:
                nodes.remove_node(removed)
            else:
                os.kill(shard_processes()[0], signal.SIGKILL)

    def tell(text):
        told.append(text)
        if removed and "continues from its last checkpoint" in text:
            added.append(nodes.add_node(num_cpus=1))

    assert run(tmp_path / "lost", configs, engine, lose, tell) == expected
    engine.close()
    assert rounds == [*range(6), 5, 6, 7, 8]
    assert len([text for text in told if "continues from its last checkpoint" in text]) == 1
    assert_no_shards_are_left()
    for node in added:
        nodes.remove_node(node)


def test_shards_that_die_again_and_again_end_the_run_with_an_error(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sharded_runs, "MAX_LOSSES", 2)
    engine = RayEngine(cluster, num_shards=2)

    def kill(now):
        if now.round >= 3:
            os.kill(shard_processes()[0], signal.SIGKILL)

    with pytest.raises(WorkerDied, match="2 times without a new checkpoint"):
        run(tmp_path / "dying", configs_of(["random"], checkpoint_every=5), engine, kill)
    engine.close()


def test_errors_of_shards_are_those_of_one_process(cluster, tmp_path):
    engine = RayEngine(cluster, num_shards=2)
    wild = configs_of(["random"], **{"training.learning_rate": 1e30})
    with pytest.raises(TrainingError, match="Training diverged in round 1: the model of peer"):
        run(tmp_path / "wild", wild, engine)
    engine.close()
