"""Real peers in aligned rounds do, bit for bit, what the simulator says they do."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import yaml

from coterie.experiments.config import RunConfig, build_model, make_scenario
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.peer.peer_run import MODELS, RUN
from coterie.runtime.run_tables import read_table
from coterie.simulation.simulation import Simulation
from coterie.storage.tensor_files import map_tensor
from coterie.strategies import make_strategy
from coterie.swarm.check_settings import adapt_for_real_peers
from coterie.swarm.peer_folders import peer_folders
from coterie.swarm.run_swarm import execute_by_peers

NUM_PEERS = 8
SMALL = {
    "peers.count": NUM_PEERS,
    "peers.train_size": 8,
    "peers.validation_size": 6,
    "rounds": 4,
    "training.epochs": 1,
    "test_every": 2,
}
# Every phase of a strategy within four rounds.
CASES = {
    "dac": ("digits", {}),
    "hast": ("digits-methods", {}),
    "pens": ("digits-methods", {"strategy.samples": 4, "strategy.exploration_rounds": 2}),
    "panm": ("digits-methods", {"strategy.confident_rounds": 2}),
    "gossip": ("digits", {}),
    "kin": ("digits", {}),
    "dac with drift": ("digits-drift", {"drift.every": 2}),
}
# What a simulation has too; of the other tables only real peers have something to tell.
TABLES = ("metrics", "neighbours", "chosen_neighbours", "beliefs")


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory) -> tuple[RunFolder, RunFolder]:
    """Return the same experiment, simulated and by real processes."""
    preset, changes = CASES[request.param]
    strategy = request.param.partition(" ")[0]
    (config,) = find_preset(preset).runs([strategy], [7], SMALL | changes)
    by_peers, notes = adapt_for_real_peers(config, {}, own_pace=False)
    assert not notes
    folder = tmp_path_factory.mktemp(strategy)
    simulated = Experiment.create(folder / "simulated", [config])
    simulated.run(threads=1)
    real = Experiment.create(folder / "real", [by_peers])
    real.run(threads=1, execute=partial(execute_by_peers, keep_peers=True))
    return simulated.runs[0], real.runs[0]


def test_same_peers_are_chosen_and_the_same_bytes_counted(both):
    simulated, real = (in_one_order(read_table(run.folder, "exchanges")) for run in both)
    assert simulated.num_rows > 0
    assert_same(simulated, real)


def test_final_weights_are_the_same_bits(both):
    simulated, real = both
    last = last_models(simulated.config)
    for number, folder in enumerate(peer_folders(real.folder, NUM_PEERS)):
        mine = map_tensor(folder / RUN / MODELS, "last")[0]
        np.testing.assert_array_equal(mine, last[number])
    best = [map_tensor(run.folder / MODELS, "best") for run in both]
    np.testing.assert_array_equal(*best)
    assert best[0].shape == last.shape


@pytest.mark.parametrize("name", TABLES)
def test_gathered_tables_are_those_of_the_simulation(both, name):
    simulated, real = (read_table(run.folder, name) for run in both)
    assert_same(simulated, real)
    assert simulated.num_rows or name in ("chosen_neighbours", "beliefs")


def test_run_folder_tells_the_same_but_who_ran_it(both):
    simulated, real = both
    assert real.read_summary() == simulated.read_summary()
    assert real.read_cluster_names() == simulated.read_cluster_names()
    before, after = (yaml.safe_load((run.folder / "config.yaml").read_text()) for run in both)
    assert {key for key in after if before[key] != after[key]} == {"runtime"}


def test_every_model_came_in_time_and_every_round_has_its_cost(both):
    _, real = both
    arrivals = read_table(real.folder, "arrivals")
    exchanges = read_table(real.folder, "exchanges")
    # A model that is asked for twice in a round is one arrival; one that is only probed is none.
    kinds = exchanges["kind"].to_pylist()
    moved = zip(
        *(exchanges[name].to_pylist() for name in ("round", "receiver", "sender")), strict=True
    )
    expected = {key for key, kind in zip(moved, kinds, strict=True) if kind != "probe"}
    got = zip(*(arrivals[name].to_pylist() for name in ("round", "peer", "other")), strict=True)
    assert set(got) == expected
    assert arrivals["other_round"].to_pylist() == [n - 1 for n in arrivals["round"].to_pylist()]
    efforts = read_table(real.folder, "efforts")
    assert efforts.num_rows == NUM_PEERS * 5
    wall, work = (efforts[f"{name}_seconds"].to_numpy() for name in ("wall", "work"))
    assert (work > 0).all()
    assert (work <= wall).all()


def last_models(config: RunConfig) -> np.ndarray:
    """Simulate once more, and return the models that peers end with, (K, P)."""
    scenario = make_scenario(config)
    with Simulation(
        scenario,
        lambda: build_model(config, scenario.num_outputs),
        lambda: make_strategy(config.strategy["name"], config.strategy_options()),
        config,
    ) as simulation:
        while not simulation.finished:
            simulation.advance()
        return simulation.state.current.copy()


def in_one_order(exchanges: pa.Table) -> pa.Table:
    """Return exchanges sorted: who asks several times in a round does so at its own pace."""
    keys = ("round", "kind", "receiver", "sender", "weight")
    return exchanges.sort_by([(key, "ascending") for key in keys])


def assert_same(one: pa.Table, other: pa.Table) -> None:
    """Check that two tables hold the same, where NaN is the same as NaN."""
    assert one.schema == other.schema
    for name in one.column_names:
        np.testing.assert_array_equal(one[name].to_numpy(), other[name].to_numpy(), name)
