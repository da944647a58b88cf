"""Watching peers: what is recorded is true, and nothing else changes by it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import assert_same_table, drifting_simulation, options_for

from coterie.errors import ConfigError
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round_metrics import RoundMetrics
from coterie.runtime.run_tables import SCHEMAS
from coterie.runtime.settings import NetworkSettings, WatchSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.dac import DAC
from coterie.strategies.random import Random
from coterie.strategies.server.fedavg import FedAvg

WATCH = {"peers": [0, 3], "metrics": ["inverse-loss", "cosine-gradients"], "alpha": 0.5}
OTHERS = [name for name in SCHEMAS if name not in ("similarities", "timings")]


def tables_of(simulation: Simulation) -> Recorder:
    recorder = Recorder()
    run_to_end(simulation, recorder)
    return recorder


@pytest.mark.parametrize("name", list(STRATEGIES))
@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
@pytest.mark.slow
def test_watching_changes_nothing_else(name, schedule):
    """Bit for bit, over a shift, with absences and losses, for every strategy."""
    options = options_for(name, 2)
    recorders, models = [], []
    for watch in ({}, WATCH):
        network = NetworkSettings(offline_probability=0.2, loss_probability=0.2)
        with drifting_simulation(
            lambda: make_strategy(name, options),
            schedule=schedule,
            patience=2,
            network=network,
            watch=WatchSettings(**watch),
        ) as simulation:
            recorders.append(tables_of(simulation))
            models.append(simulation.best_models())
    for table in OTHERS:
        assert_same_table(*(recorder.table(table) for recorder in recorders))
    np.testing.assert_array_equal(*models)
    assert recorders[0].table("similarities").num_rows == 0


def test_the_watched_are_compared_with_everybody(make_simulation):
    with make_simulation(lambda: Random(fetches=1), watch=WatchSettings(peers=(1,))) as simulation:
        table = tables_of(simulation).table("similarities")
    rows = table.to_pylist()
    assert {row["round"] for row in rows} == {1, 2, 3}
    assert len(rows) == 3 * 4 * 5
    assert {row["other"] for row in rows} == {0, 2, 3, 4, 5}
    assert all((row["cluster"], row["other_cluster"]) == (1, row["other"] % 2) for row in rows)


def test_what_is_seen_is_what_the_peer_would_measure(make_simulation):
    """DAC fetches from all others here, and finds just what watching recorded."""
    watch = WatchSettings(peers=(2,), metrics=("cosine-gradients",), alpha=0.5)
    strategies = []

    def make() -> DAC:
        strategies.append(DAC(fetches=5, metric="cosine-gradients", alpha=0.5))
        return strategies[-1]

    with make_simulation(make, watch=watch) as simulation:
        simulation.advance()
        simulation.advance()
        seen = simulation.advance().tables()["similarities"]
    # The first one made is only asked whether it fits.
    mine = strategies[-6:][2].table
    np.testing.assert_array_equal(mine.similarities(seen["other"]), seen["similarity"])
    assert len(seen["other"]) == 5


def test_a_shift_is_seen_at_once():
    """The clusters are those of the round, and the data as well."""
    with drifting_simulation(
        lambda: Random(fetches=1), watch=WatchSettings(peers=(0,))
    ) as simulation:
        table = tables_of(simulation).table("similarities")
    clusters = {row["round"]: row["cluster"] for row in table.to_pylist()}
    assert clusters == {1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1}


def test_every_other_round(make_simulation):
    watch = WatchSettings(peers=(0,), metrics=("accuracy",), every=2)
    with make_simulation(lambda: Random(fetches=1), rounds=5, watch=watch) as simulation:
        table = tables_of(simulation).table("similarities")
    assert sorted(set(table["round"].to_pylist())) == [2, 4]


@pytest.mark.parametrize("threads", [2, 3])
def test_workers_see_the_same(make_simulation, threads):
    tables = []
    for count in (1, threads):
        with make_simulation(
            lambda: Random(fetches=2), threads=count, watch=WatchSettings(**WATCH)
        ) as simulation:
            tables.append(tables_of(simulation).table("similarities"))
    assert_same_table(*tables)


def test_a_server_has_nobody_to_watch(make_simulation):
    with make_simulation(lambda: FedAvg(fetches=2), watch=WatchSettings(peers=(0,))) as simulation:
        assert tables_of(simulation).table("similarities").num_rows == 0


def test_nobody_can_watch_a_peer_that_is_not_there(make_simulation):
    with pytest.raises(ConfigError, match=r"watch\.peers names peer 6, but the 6 peers"):
        make_simulation(lambda: Random(fetches=2), watch=WatchSettings(peers=(0, 6)))


def test_nobody_is_watched_twice():
    with pytest.raises(ConfigError, match="only once"):
        WatchSettings(peers=(1, 1))


SMALL = {
    "peers.count": 8,
    "rounds": 10,
    "checkpoint_every": 2,
    "strategy.fetches": 2,
    "strategy.metric": "inverse-loss",
    "drift": {"kind": "random", "every": 4},
    "watch": {"peers": [1, 6]},
}


def run_in_child(folder: Path, kill_in: int | None = None) -> int:
    """Run, or resume, an experiment in a forked child; return how it ended."""
    child = os.fork()
    if child == 0:

        def on_round(run: RunFolder, glimpse: RoundMetrics) -> None:
            if glimpse.round == kill_in:
                os.kill(os.getpid(), signal.SIGKILL)

        torch.set_num_threads(1)
        try:
            experiment = Experiment.open(folder)
            experiment.run(threads=2, on_round=on_round, tell=lambda message: None)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kill_in", [1, 3, 6])
@pytest.mark.slow
def test_killed_and_resumed_it_has_seen_the_same(tmp_path, kill_in):
    """The changes of models that cosine-gradients needs survive in checkpoints."""
    recorded = []
    for folder, killed in ((tmp_path / "whole", None), (tmp_path / "killed", kill_in)):
        run = folder / "dac-seed3"
        Experiment.create(folder, find_preset("digits").runs(["dac"], [3], SMALL))
        if killed is not None:
            assert run_in_child(folder, killed) == -signal.SIGKILL
        assert run_in_child(folder) == 0
        names = ("similarities", "metrics", "exchanges")
        recorded.append([(run / f"{name}.parquet").read_bytes() for name in names])
    assert recorded[0] == recorded[1]
