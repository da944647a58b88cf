"""The peers' estimates are recorded unchanged, and recording changes no result."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from recorded_tables import where
from small_runs import assert_same_table, drifting_simulation, options_for

from coterie.errors import Interrupted
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.estimate_records import estimate_columns, is_estimate_round, recorded_peers
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.run_tables import SCHEMAS
from coterie.runtime.settings import NetworkSettings, SimulationSettings, WatchSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.dac import DAC
from coterie.strategies.pens import PENS
from coterie.strategies.random import Random
from coterie.strategies.strategy import Estimates, GroundTruth

OTHERS = [name for name in SCHEMAS if name not in ("beliefs", "timings")]
WITH_TABLES = ("dac", "greedy", "pens", "panm", "hast", "kin")


def recorded(simulation: Simulation) -> Recorder:
    recorder = Recorder()
    with simulation:
        run_to_end(simulation, recorder)
    return recorder


def due(rounds: int, wanted: int = 20) -> list[int]:
    """Return the rounds in which beliefs are recorded."""
    settings = SimulationSettings(rounds=rounds, watch=WatchSettings(beliefs=wanted))
    return [
        number
        for number in range(1, rounds + 1)
        if is_estimate_round(number, settings, is_last=number == rounds)
    ]


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_recording_changes_nothing_else(name):
    """Bit for bit, over a shift, with absences and losses, for every strategy."""
    recorders, models = [], []
    for wanted in (0, 20):
        simulation = drifting_simulation(
            lambda: make_strategy(name, options_for(name, 2)),
            network=NetworkSettings(offline_probability=0.2, loss_probability=0.2),
            watch=WatchSettings(beliefs=wanted),
        )
        recorders.append(recorded(simulation))
        models.append(simulation.best_models())
    for table in OTHERS:
        assert_same_table(*(recorder.table(table) for recorder in recorders))
    np.testing.assert_array_equal(*models)
    assert recorders[0].table("beliefs").num_rows == 0
    assert (recorders[1].table("beliefs").num_rows > 0) == (name in WITH_TABLES)


def test_rows_are_what_a_peer_has_in_its_table(make_simulation):
    strategies: list[DAC] = []

    def make() -> DAC:
        strategies.append(DAC(fetches=2))
        return strategies[-1]

    table = recorded(make_simulation(make)).table("beliefs")
    last = table.filter(pc.equal(table["round"], 3))
    for peer, strategy in enumerate(strategies[-6:]):
        others = np.array([other for other in range(6) if other != peer])
        similarities = strategy.table.similarities(others)
        weights = np.exp(30.0 * np.nan_to_num(similarities))
        assert not np.isnan(similarities).all()
        for other, similarity, weight in zip(others, similarities, weights, strict=True):
            if np.isnan(similarity):
                unknown = pc.and_(pc.equal(last["peer"], peer), pc.equal(last["other"], other))
                assert last.filter(unknown).num_rows == 0
                continue
            row = where(last, peer=peer, other=int(other))
            assert (row["cluster"], row["other_cluster"]) == (peer % 2, other % 2)
            assert row["similarity"] == np.float32(similarity)
            assert row["probability"] == pytest.approx(weight / weights.sum(), rel=1e-6)
            (measured,) = strategy.table.is_measured(np.array([other]))
            assert row["origin"] == ("measured" if measured else "estimated")
    assert set(table["origin"].to_pylist()) == {"measured", "estimated"}


def test_pens_believes_in_those_it_selected_often(make_simulation):
    strategies: list[PENS] = []

    def make() -> PENS:
        strategies.append(PENS(1, 3, 4, exploration_rounds=2, exploration_epochs=1))
        return strategies[-1]

    table = recorded(make_simulation(make)).table("beliefs")
    for row in table.to_pylist():
        strategy = strategies[-6:][row["peer"]]
        selected, sampled = strategy.num_selected, strategy.num_sampled
        neighbours = strategy.neighbours()
        if row["round"] == 1:  # the second round, which comes next, still explores
            assert row["probability"] == pytest.approx(1 / 5)
        else:
            other = np.array([row["other"]])
            assert row["similarity"] == pytest.approx(selected.of(other) / sampled.of(other))
            chance = 1 / len(neighbours) if row["other"] in neighbours else 0
            assert row["probability"] == pytest.approx(chance)


def test_who_keeps_no_table_has_no_rows(make_simulation):
    assert recorded(make_simulation(lambda: Random(2))).table("beliefs").num_rows == 0


def test_some_evenly_spaced_rounds_and_the_last():
    assert due(300) == list(range(15, 301, 15))
    assert due(7) == [1, 2, 3, 4, 5, 6, 7]
    assert due(50) == [*range(3, 49, 3), 50]
    assert due(50, wanted=3) == [17, 34, 50]
    assert due(50, wanted=0) == []


def test_a_run_that_ends_early_tells_what_was_believed_then(make_simulation):
    settings = {"patience": 1, "watch": WatchSettings(beliefs=1), "rounds": 300}
    recorder = recorded(make_simulation(lambda: DAC(fetches=2), **settings))
    last = pc.max(recorder.table("metrics")["round"]).as_py()
    assert last < 300
    assert set(recorder.table("beliefs")["round"].to_pylist()) == {last}


def test_everybody_is_asked_in_a_network_of_100():
    np.testing.assert_array_equal(recorded_peers(np.arange(100) % 4), np.arange(100))
    np.testing.assert_array_equal(recorded_peers(np.zeros(1, np.int64)), [0])


@pytest.mark.parametrize("clusters", [np.arange(1000) % 4, np.arange(1000) // 250])
def test_in_large_networks_a_few_of_each_cluster_are_asked(clusters):
    asked = recorded_peers(clusters)
    assert len(asked) * 999 <= 10_000
    assert set(clusters[asked]) == {0, 1, 2, 3}
    assert (np.diff(asked) > 0).all()


def test_a_table_of_100_peers_and_300_rounds_is_small(tmp_path):
    """With values that no compression can guess."""
    rng = np.random.default_rng(0)
    recorder = Recorder(tmp_path)
    clusters = np.repeat(np.arange(4), 25)
    for number in due(300):
        estimates = {
            peer: Estimates(
                np.delete(np.arange(100), peer),
                rng.lognormal(size=99),
                rng.random(99) < 0.5,
                rng.random(99),
            )
            for peer in range(100)
        }
        now = Round(number, 0, np.ones(100, bool), np.zeros(100, bool), GroundTruth(clusters))
        now.estimates = estimate_columns(estimates, clusters)
        recorder.add(now)
    recorder.finish()
    assert recorder.table("beliefs").num_rows == 198_000
    assert (tmp_path / "beliefs.parquet").stat().st_size < 3e6


class MishapError(Exception):
    """Something that ends a run at once, as a kill would."""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def fail() -> None:
    raise MishapError


@pytest.mark.parametrize("name", WITH_TABLES)
@pytest.mark.parametrize(("end", "error"), [(interrupt, Interrupted), (fail, MishapError)])
@pytest.mark.slow
def test_a_run_that_was_stopped_has_the_same_bytes(name, end, error, tmp_path):
    """Stopped twice, after a checkpoint, or with rounds recorded that no checkpoint knows of."""

    def start(folder: Path) -> tuple[Simulation, Recorder, Checkpoints]:
        simulation = drifting_simulation(
            lambda: make_strategy(name, options_for(name, 2)),
            network=NetworkSettings(offline_probability=0.2),
            watch=WatchSettings(beliefs=3),
        )
        return simulation, Recorder(folder), Checkpoints(folder / "checkpoints")

    def stop(now: Round) -> None:
        if now.number in stops:
            stops.remove(now.number)
            end()

    stops = [2, 4]
    options = {"checkpoint_every": 3, "tell": lambda _: None, "on_round": stop}
    for _ in range(2):
        with pytest.raises(error):
            run_to_end(*start(tmp_path / "stopped"), **options)
    run_to_end(*start(tmp_path / "stopped"), **options)
    assert stops == []
    run_to_end(*start(tmp_path / "whole"))
    whole, stopped = (tmp_path / each / "beliefs.parquet" for each in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()
