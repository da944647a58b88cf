"""A run in shards gives the bits of the same run in one process: tables, models, checkpoints."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from small_runs import assert_same_table, drifting_scenario, options_for, small_module

from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.run_tables import SCHEMAS
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.shards.shard import Shard
from coterie.simulation.shards.shard_group import LocalShards
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.sharded_simulation import ShardedSimulation
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.server.server_strategy import ServerStrategy

PEERS, ROUNDS = 8, 5
SHORT = {
    "pens": {"exploration_rounds": 3, "samplings": 2, "exploration_epochs": 1},
    "panm": {"confident_rounds": 2, "candidates": 2},
    "delusional-oracle": {"from_round": 2},
}
WITH_PEERS = [name for name, kind in STRATEGIES.items() if not issubclass(kind, ServerStrategy)]
CHURN = {"network": {"offline_probability": 0.2, "loss_probability": 0.2}}
EVERYTHING = {**CHURN, "poison": {"kind": "sign-flip", "count": 1}}
TABLES = [name for name in SCHEMAS if name != "timings"]


def strategy_of(name, **options):
    return partial(make_strategy, name, {**options_for(name, 2), **SHORT.get(name, {}), **options})


def settings_of(**settings):
    training = {"epochs": 1, "trainer": "native", **settings.pop("training", {})}
    return SimulationSettings(rounds=ROUNDS, training=training, test_every=2, **settings)


def whole(make, settings):
    scenario = drifting_scenario(PEERS, ROUNDS)
    return Simulation(scenario, small_module, make, settings, tell=lambda _: None)


def sharded(make, settings, num_shards):
    plan = ShardPlan(PEERS, num_shards)
    shards = [
        Shard(drifting_scenario(PEERS, ROUNDS), small_module, make, settings, plan, place)
        for place in range(num_shards)
    ]
    return ShardedSimulation(drifting_scenario(PEERS, ROUNDS), settings, LocalShards(shards))


def results_of(simulation):
    recorder = Recorder()
    with simulation:
        run_to_end(simulation, recorder)
        guesses = simulation.guess_tests()
        return (
            {name: recorder.table(name) for name in TABLES},
            simulation.best_models(),
            simulation.validate_best(),
            [(guess.value, guess.num_samples) for guess in guesses],
            simulation.poisoned,
        )


def assert_same(one, other):
    for name in TABLES:
        assert_same_table(one[0][name], other[0][name])
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
@pytest.mark.parametrize("strategy", WITH_PEERS)
def test_every_strategy_with_drift_poison_and_churn(strategy, schedule):
    make, settings = strategy_of(strategy), settings_of(schedule=schedule, **EVERYTHING)
    expected = results_of(whole(make, settings))
    assert expected[0]["exchanges"].num_rows or strategy == "local"
    for num_shards in (1, 2, 3):
        assert_same(results_of(sharded(make, settings, num_shards)), expected)


@pytest.mark.parametrize("kind", ["label-flip", "noise", "stale", "delusional", "liar", "absent"])
def test_every_kind_of_poison(kind):
    make = strategy_of("kin")
    settings = settings_of(poison={"kind": kind, "count": 2, "from_round": 2})
    assert_same(results_of(sharded(make, settings, 3)), results_of(whole(make, settings)))


@pytest.mark.parametrize("measured_by", ["me", "them"])
@pytest.mark.parametrize("initialisation", ["common", "independent"])
def test_weights_and_updates_of_other_shards_are_compared(initialisation, measured_by):
    """Similarities need the models of others, and what local training changed in them."""
    metric = "cosine-gradients" if measured_by == "me" else "inverse-loss"
    make = strategy_of("dac", metric=metric, measured_by=measured_by)
    watch = {"peers": [5, 0, 3], "every": 2}
    settings = settings_of(initialisation=initialisation, watch=watch, compare_bests=True, **CHURN)
    assert_same(results_of(sharded(make, settings, 3)), results_of(whole(make, settings)))


@pytest.mark.parametrize("early", [{"patience": 1}, {"best_by": "best-score", "patience": 1}])
def test_shards_stop_early_together(early):
    make, settings = strategy_of("random"), settings_of(**early)
    expected = results_of(whole(make, settings))
    assert "stopped" in expected[0]["metrics"]["status"].to_pylist()
    assert_same(results_of(sharded(make, settings, 2)), expected)


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
@pytest.mark.parametrize("strategy", ["kin", "gossip", "pens", "hast"])
def test_any_number_of_shards_continues_a_run(tmp_path, strategy, schedule):
    make, settings = strategy_of(strategy), settings_of(schedule=schedule, **EVERYTHING)
    expected = results_of(whole(make, settings))
    starts = {
        "whole": whole,
        "two": partial(sharded, num_shards=2),
        "three": partial(sharded, num_shards=3),
    }
    for before, after in (("two", "three"), ("two", "whole"), ("whole", "two"), ("three", "three")):
        checkpoints = Checkpoints(tmp_path / f"{before}-{after}")
        with starts[before](make, settings) as simulation:
            rounds = [simulation.advance() for _ in range(3)]
            simulation.save_to(checkpoints)
        with starts[after](make, settings) as simulation:
            simulation.restore(checkpoints.read_newest(pytest.fail))
            while not simulation.finished:
                rounds.append(simulation.advance())
            np.testing.assert_array_equal(simulation.best_models(), expected[1])
        recorder = Recorder()
        for now in rounds:
            recorder.add(now)
        for name in TABLES:
            assert_same_table(recorder.table(name), expected[0][name])


def test_a_damaged_part_of_a_checkpoint_makes_the_whole_one_unusable(tmp_path):
    checkpoints, warnings = Checkpoints(tmp_path), []
    with sharded(strategy_of("dac"), settings_of(), 3) as simulation:
        for _ in range(4):
            simulation.advance()
            simulation.save_to(checkpoints)
    parts = sorted(tmp_path.glob("part-*"))
    assert len(parts) == 2 * 3  # those of the newest two checkpoints
    content = bytearray(parts[-1].read_bytes())
    content[-1] ^= 1
    parts[-1].write_bytes(content)
    assert checkpoints.read_newest(warnings.append)["next_round"] == 3
    assert "checksum" in warnings[0]


@pytest.mark.parametrize("num_shards", [0, 9])
def test_a_shard_has_at_least_one_peer(num_shards):
    with pytest.raises(Exception, match=f"{num_shards} shards for 8 peers"):
        ShardPlan(PEERS, num_shards)
