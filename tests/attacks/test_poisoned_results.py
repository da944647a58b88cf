"""Poisoned peers: their choice, results without them, and settings that cannot work."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow.parquet as pq
import pytest
from poisoned_peers import peers_with_flipped_labels, poisoned_numbers
from small_runs import assert_same_table, drifting_simulation, metrics_of, small_module

from coterie.attacks.poison_settings import PoisonKind, PoisonSettings
from coterie.attacks.poisoning import poisoned_peers
from coterie.errors import ConfigError
from coterie.experiments.config import apply_changes, build_model, make_scenario
from coterie.experiments.execution import execute
from coterie.experiments.presets import find_preset
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.run_tables import NEWER_COLUMNS, read_table
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies.dac import DAC
from coterie.strategies.kin.kin import Kin
from coterie.strategies.local import Local
from coterie.strategies.random import Random
from coterie.strategies.server.fedavg import FedAvg
from coterie.swarm.check_settings import adapt_for_real_peers

KINDS = tuple(kind for kind in get_args(PoisonKind) if kind != "none")


# The choice of poisoned peers


def test_who_is_poisoned_depends_on_the_seed_alone(make_simulation):
    drawn = []
    for strategy, seed, kind in (
        (Local, 0, "noise"),
        (lambda: Kin(fetches=2), 0, "stale"),
        (Local, 1, "noise"),
        (Local, 2, "noise"),
    ):
        poison = PoisonSettings(kind=kind, count=5)
        with make_simulation(strategy, [8] * 20, seed=seed, poison=poison) as simulation:
            drawn.append(poisoned_numbers(simulation))
    assert [len(each) for each in drawn] == [5] * 4
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2] != drawn[3] != drawn[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"share": 0.3}, 5),
        ({"share": 0.5}, 8),
        ({"share": 0.01}, 0),
        ({"share": 0.5, "cluster": 1}, 4),
        ({"share": 1, "cluster": 1}, 7),
        ({"count": 3, "cluster": 0}, 3),
        ({"count": 0}, 0),
    ],
)
def test_how_many_are_poisoned(make_datasets, settings, expected):
    """Of 15 peers, 8 in the first cluster; rounded to the nearest."""
    datasets = make_datasets([8] * 15)
    poisoned = poisoned_peers(PoisonSettings(kind="noise", **settings), datasets, 0)
    assert poisoned.sum() == expected
    if "cluster" in settings:
        assert (datasets.clusters(0)[poisoned] == settings["cluster"]).all()


def test_more_poison_is_more_of_the_same(make_datasets):
    datasets = make_datasets([8] * 15)
    few, many = (
        poisoned_peers(PoisonSettings(kind="noise", count=count), datasets, 0) for count in (3, 6)
    )
    assert many[few].all()


# The same bits


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_the_number_of_workers(make_simulation, kind):
    results = []
    for threads in (1, 2):
        with make_simulation(
            lambda: Kin(fetches=2),
            threads=threads,
            poison=PoisonSettings(kind=kind, share=0.3),
        ) as simulation:
            results.append((metrics_of(simulation), simulation.best_models()))
    assert_same_table(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize(
    ("kind", "schedule", "stop_after"),
    [(kind, schedule, 4) for kind in KINDS for schedule in ("synchronous", "sequential")]
    + [("stale", "synchronous", 1), ("label-flip", "synchronous", 1)],
)
def test_going_on_later_changes_nothing(kind, schedule, stop_after):
    """Saved before poison begins, and after it has begun and the data have changed."""
    poison = PoisonSettings(kind=kind, count=2, from_round=2)

    def make() -> Simulation:
        return drifting_simulation(lambda: DAC(fetches=2), schedule=schedule, poison=poison)

    with make() as whole, make() as second:
        for _ in range(stop_after + 1):
            whole.advance()
        second.restore(deepcopy(whole.save()))
        np.testing.assert_array_equal(second.state.published, whole.state.published)
        while not whole.finished:
            expected, now = whole.advance(), second.advance()
            for name, columns in expected.tables().items():
                for column, values in columns.items():
                    np.testing.assert_array_equal(now.tables()[name][column], values)
            np.testing.assert_array_equal(second.state.published, whole.state.published)
        np.testing.assert_array_equal(second.best_models(), whole.best_models())


# What is recorded


def test_only_the_honest_are_measured(make_simulation):
    poison = PoisonSettings(kind="noise", count=2, from_round=3)
    with make_simulation(Local, rounds=4, test_every=2, poison=poison) as simulation:
        bad = poisoned_numbers(simulation)
        metrics = metrics_of(simulation)
    is_bad = np.isin(metrics["peer"].to_numpy(), bad)
    np.testing.assert_array_equal(metrics["poisoned"].to_numpy(), is_bad)
    for name in ("train_loss", "validation_loss_trained", "validation_score_trained"):
        np.testing.assert_array_equal(np.isnan(metrics[name].to_numpy()), is_bad)
    tested = ~np.isnan(metrics["test_score"].to_numpy())
    np.testing.assert_array_equal(tested, ~is_bad & (metrics["round"].to_numpy() % 2 == 0))


def test_strategies_still_hear_how_good_a_poisoned_peer_is(make_simulation):
    """What is left out of the records is not hidden from the peer itself."""
    accuracies = []

    class Curious(Local):
        def round(self, me):
            accuracies.append(me.validation_score)
            return super().round(me)

    with make_simulation(Curious, poison=PoisonSettings(kind="stale", count=3)) as simulation:
        metrics_of(simulation)
    assert len(accuracies) == 18
    assert not np.isnan(accuracies).any()


def digits(**changes):
    small = {"peers.count": 8, "rounds": 2, "strategy.fetches": 2}
    (config,) = find_preset("digits").runs(["random"], [0], {**small, **changes})
    return config


def test_the_summary_is_of_the_honest(tmp_path):
    config = digits(**{"poison.kind": "sign-flip", "poison.share": 0.4})
    run = RunFolder(tmp_path / "run", config)
    run.create_folder()
    scenario = make_scenario(config)
    execute(run, lambda: scenario, threads=1, tell=len, how_to_continue="")
    poisoned = poisoned_peers(config.poison, scenario, 0)
    assert poisoned.sum() == 3
    accuracies = read_table(run.folder, "metrics")["test_score"].to_numpy()[-8:]
    np.testing.assert_array_equal(np.isnan(accuracies), poisoned)
    assert run.read_summary().mean == pytest.approx(accuracies[~poisoned].mean())
    with Simulation(
        scenario,
        lambda: build_model(config, scenario.num_outputs),
        lambda: Random(fetches=2),
        config,
        tell=len,
    ) as again:
        metrics_of(again)
        validated = again.state.validate_best()[1]
    assert run.read_summary().validation == validated[~poisoned].mean() != validated.mean()


def test_poisoned_peers_never_stop_and_nobody_waits_for_them(make_simulation):
    poison = PoisonSettings(kind="sign-flip", count=2)
    with make_simulation(
        Local, rounds=400, patience=1, poison=poison, training={"learning_rate": 0.1}
    ) as simulation:
        metrics = metrics_of(simulation)
        assert simulation.next_round < 400
        stopped = simulation.state.progress.stopped
        np.testing.assert_array_equal(stopped, ~simulation.state.poisoning.peers)
    statuses = set(zip(metrics["poisoned"].to_pylist(), metrics["status"].to_pylist(), strict=True))
    assert (True, "stopped") not in statuses
    assert (False, "stopped") in statuses


def test_runs_that_are_older_than_a_column_can_be_read(tmp_path, make_simulation):
    with make_simulation(Local) as simulation:
        run_to_end(simulation, Recorder(tmp_path))
    path = tmp_path / "metrics.parquet"
    new = pq.read_table(path)
    pq.write_table(new.drop_columns(list(NEWER_COLUMNS)), path)
    old = RecordedTables(tmp_path, 6).table("metrics")
    assert_same_table(old, new)


# What cannot work


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"poison.share": None}, "give the number of poisoned peers, either as share or as count"),
        ({"poison.count": 2}, "either as share or as count"),
        ({"poison.share": 1.5}, "poison.share = 1.5 cannot be used"),
        ({"poison.from_round": 0}, "poison.from_round = 0 cannot be used"),
        ({"poison.kind": "signflip"}, "poison.kind = 'signflip' cannot be used"),
    ],
)
def test_settings_that_cannot_work(changes, message):
    with pytest.raises(ConfigError, match=message):
        digits(**{"poison.kind": "noise", "poison.share": 0.3, **changes})


def test_a_share_without_a_kind_is_no_mistake():
    """A sweep over kinds begins with none."""
    assert apply_changes(digits(), {"poison.share": 0.3}).poison.kind == "none"


@pytest.mark.parametrize(
    ("poison", "strategy", "message"),
    [
        ({"count": 7}, Local, "poison.count is 7, but there are only 6 peers. Use at most 6"),
        ({"count": 4, "cluster": 1}, Local, "only 3 peers that begin in cluster 1"),
        ({"share": 0.5, "cluster": 2}, Local, "poison.cluster is 2, but the 2 true clusters are"),
        ({"share": 1}, Local, "leaves none of the 6 peers honest"),
        ({"share": 0.5}, FedAvg, "strategy 'fedavg' has a server"),
    ],
)
def test_poison_that_does_not_fit_the_peers(make_simulation, poison, strategy, message):
    with pytest.raises(ConfigError, match=message):
        make_simulation(strategy, poison=PoisonSettings(kind="noise", **poison))


def test_nobody_is_deluded_where_there_is_one_cluster():
    settings = SimulationSettings(poison=PoisonSettings(kind="delusional", count=1))
    with pytest.raises(ConfigError, match="needs at least two true clusters"):
        Simulation(peers_with_flipped_labels([], regression=False), small_module, Local, settings)


def test_real_peers_cannot_be_poisoned():
    with pytest.raises(ConfigError, match="real peers cannot be poisoned by a setting"):
        adapt_for_real_peers(
            digits(**{"poison.kind": "noise", "poison.share": 0.3}), {}, own_pace=False
        )


def test_poison_scales_with_rounds_and_peers():
    preset = find_preset("digits")
    poison = PoisonSettings(kind="stale", count=8, from_round=20)
    preset = replace(preset, config=preset.config.model_copy(update={"poison": poison}))
    (config,) = preset.runs(["random"], [0], {}, scale=0.25)
    assert (config.poison.count, config.poison.from_round) == (2, 5)
