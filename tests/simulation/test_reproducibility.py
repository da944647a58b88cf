"""The same start, seed and settings give the same bits, with any workers and after a pause."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from small_runs import assert_same_table, drifting_simulation, metrics_of, options_for

from coterie.runtime.settings import NetworkSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.local import Local
from coterie.strategies.random import Random


@pytest.mark.parametrize("initialisation", ["common", "independent"])
def test_initial_weights(make_simulation, initialisation):
    with make_simulation(Local, initialisation=initialisation) as simulation:
        start = simulation.state.current
        alike = [bool((start[0] == row).all()) for row in start[1:]]
        assert all(alike) if initialisation == "common" else not any(alike)


@pytest.mark.parametrize("initialisation", ["common", "independent"])
def test_strategies_share_data_and_start(make_simulation, initialisation):
    """Another strategy changes neither the initial weights nor the initial training."""
    first_rounds = []
    for strategy in (Local, lambda: Random(fetches=3)):
        with make_simulation(strategy, initialisation=initialisation) as simulation:
            first_rounds.append((simulation.state.current.copy(), simulation.advance()))
    (one_start, one), (other_start, other) = first_rounds
    np.testing.assert_array_equal(one_start, other_start)
    np.testing.assert_array_equal(one.measures["train_loss"], other.measures["train_loss"])


def test_seeds_differ(make_simulation):
    starts = []
    for seed in (0, 1):
        with make_simulation(Local, seed=seed) as simulation:
            starts.append(simulation.state.current.copy())
    assert (starts[0] != starts[1]).any()


def test_strategies_draw_differently_in_each_round(make_simulation):
    with make_simulation(lambda: Random(fetches=2), rounds=4) as simulation:
        simulation.advance()
        rounds = [simulation.advance().exchanges.columns() for _ in range(4)]
    assert len({tuple(columns["sender"].tolist()) for columns in rounds}) == 4


def test_nothing_depends_on_what_ran_before(make_simulation):
    """No global randomness: whatever state numpy's and torch's generators are in, same results."""
    import torch

    tables = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 — the very thing that must not matter
        torch.manual_seed(seed)
        with make_simulation(lambda: Random(fetches=2)) as simulation:
            tables.append(metrics_of(simulation))
    assert_same_table(*tables)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_results_do_not_depend_on_the_number_of_workers(make_simulation, name):
    """Bit for bit, for every strategy."""
    results = []
    for threads in (1, 2, 3):
        options = options_for(name, 2)
        with make_simulation(
            lambda o=options: make_strategy(name, o), threads=threads
        ) as simulation:
            metrics = metrics_of(simulation)
            results.append((metrics, simulation.best_models()))
    for metrics, models in results[1:]:
        assert_same_table(metrics, results[0][0])
        np.testing.assert_array_equal(models, results[0][1])


@pytest.mark.parametrize("name", list(STRATEGIES))
@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
def test_going_on_later_changes_nothing(name, schedule):
    """Saved and restored into a new simulation, at any round and over a shift: the same bits."""
    options = options_for(name, 2)

    def make() -> Simulation:
        network = NetworkSettings(offline_probability=0.2, loss_probability=0.2)
        return drifting_simulation(
            lambda: make_strategy(name, options), schedule=schedule, patience=2, network=network
        )

    with make() as whole:
        rounds, saved = [], []
        while not whole.finished:
            rounds.append(whole.advance())
            saved.append(copy.deepcopy(whole.save()))
    for stop_after in (0, 2, 4):
        with make() as second:
            second.restore(saved[stop_after])
            later = []
            while not second.finished:
                later.append(second.advance())
        assert len(later) == len(rounds) - stop_after - 1
        for expected, now in zip(rounds[stop_after + 1 :], later, strict=True):
            for name_of_table, columns in expected.tables().items():
                for column, values in now.tables()[name_of_table].items():
                    what = f"{column} in round {now.number}, stopped after {stop_after}"
                    np.testing.assert_array_equal(values, columns[column], err_msg=what)
        np.testing.assert_array_equal(second.best_models(), whole.best_models())
