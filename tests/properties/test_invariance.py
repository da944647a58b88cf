"""What must not change the results, in random networks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import few, networks

from coterie.learning.settings import TrainingSettings
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.round import Round
from coterie.runtime.settings import NetworkSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES

Tables = dict[str, dict[str, np.ndarray]]


def _finish(simulation: Simulation) -> tuple[list[Tables], np.ndarray]:
    """Run to the end; return the tables of all rounds and the best models (K, P)."""
    with simulation:
        rounds: list[Round] = []
        while not simulation.finished:
            rounds.append(simulation.advance())
        return [now.tables() for now in rounds], simulation.best_models()


def _assert_same(
    one: tuple[list[Tables], np.ndarray],
    other: tuple[list[Tables], np.ndarray],
    *,
    but_for: Callable[[str, str], bool] = lambda table, column: False,
) -> None:
    """Compare bit for bit, except for some columns of some tables."""
    for expected, found in zip(one[0], other[0], strict=True):
        for table, columns in expected.items():
            for column, values in columns.items():
                if not but_for(table, column):
                    np.testing.assert_array_equal(
                        found[table][column], values, err_msg=f"{table}.{column}"
                    )
    np.testing.assert_array_equal(other[1], one[1])


def _about_clusters(table: str, column: str) -> bool:
    return column in ("cluster", "other_cluster", "num_true") or "same_cluster" in column


STATEFUL = [
    name for name, kind in STRATEGIES.items() if any(not each.init for each in fields(kind))
]


@pytest.mark.parametrize("name", STATEFUL)
@few(10)
@given(st.data())
def test_a_run_goes_on_from_a_file_as_if_never_stopped(name, data):
    """Whatever a strategy remembers is in the file, in the midst of what it depends on."""
    network = data.draw(networks([name], fewest_peers=5, most_peers=8, patience=None))
    stop_after = data.draw(st.integers(2, network.settings.rounds))
    tables, models = _finish(network.simulation())
    with tempfile.TemporaryDirectory() as folder, network.simulation() as first:
        checkpoints = Checkpoints(Path(folder))
        for _ in range(stop_after):
            first.advance()
        checkpoints.write(first.next_round, first.save())
        second = network.simulation()
        second.restore(checkpoints.read_newest(pytest.fail))
        done = second.next_round
        later, reached = _finish(second)
    assert len(later) == len(tables) - done
    _assert_same((tables[done:], models), (later, reached))


@few(4)
@given(networks(fewest_peers=3, most_peers=6))
def test_two_workers_do_the_same(network):
    _assert_same(_finish(network.simulation()), _finish(network.simulation(threads=2)))


BLIND = sorted(name for name, kind in STRATEGIES.items() if not kind.uses_ground_truth)


@few(8)
@given(networks(BLIND, fewest_peers=2, drifts=False), st.data())
def test_the_true_clusters_are_a_secret(network, data):
    """Whatever the clusters are said to be, a strategy that may not see them does the same."""
    number = st.integers(0, 3)
    clusters = data.draw(st.tuples(*[number] * network.num_peers))
    one = _finish(network.simulation())
    other = _finish(replace(network, clusters=clusters).simulation())
    _assert_same(one, other, but_for=_about_clusters)


@few(6)
@given(networks(["oracle"], fewest_peers=2, drifts=False), st.permutations(range(4)))
def test_the_numbers_of_clusters_mean_nothing(network, numbers):
    """Oracle asks who belongs together, not what the cluster is called."""
    renumbered = tuple(numbers[peer % 2] for peer in range(network.num_peers))
    one = _finish(network.simulation())
    other = _finish(replace(network, clusters=renumbered).simulation())
    _assert_same(one, other, but_for=lambda table, column: column == "cluster")


# With everybody fetched there is no luck in the choice of peers.
FETCH_ALL = ("local", "random", "oracle", "dac", "hast")
# One batch of all samples, so that their order does not matter but for rounding; steps in
# proportion to the gradient, so that rounding stays small.
ONE_BATCH = TrainingSettings(epochs=1, batch_size=16, optimizer="sgd", learning_rate=0.1)


@pytest.mark.parametrize("name", FETCH_ALL)
@few(4)
@given(st.data())
def test_relabelling_peers_relabels_the_results(name, data):
    network = data.draw(
        networks(
            [name],
            fewest_peers=2,
            most_peers=8,
            drifts=False,
            failures=False,
            schedule="synchronous",
            initialisation="common",
            patience=None,
            training=ONE_BATCH,
        )
    )
    fixed = {"fetches": network.num_peers - 1, "finetune": False, "merge": "fedavg"}
    options = {key: fixed.get(key, value) for key, value in network.options.items()}
    network = replace(network, options=options)
    order = data.draw(st.permutations(range(network.num_peers)))
    models = []
    for each in (network, replace(network, order=tuple(order))):
        with each.simulation() as simulation:
            while not simulation.finished:
                simulation.advance()
            models.append(simulation.state.current.copy())
    np.testing.assert_allclose(models[1], models[0][order], rtol=0, atol=1e-5)


# These train once a round, for the configured epochs, whether or not there is something to merge.
TRAIN_PLAINLY = ("random", "oracle", "dac", "gossip", "greedy", "random-weighted")


@pytest.mark.parametrize("name", TRAIN_PLAINLY)
@few(4)
@given(st.data())
def test_where_nothing_arrives_everybody_trains_alone(name, data):
    silence = NetworkSettings(loss_probability=1.0)
    network = data.draw(networks([name], network=silence))
    if "finetune" in network.options:
        network = replace(network, options={**network.options, "finetune": False})
    alone = replace(network, strategy="local", options={})
    one, other = _finish(network.simulation()), _finish(alone.simulation())
    _assert_same(
        one, other, but_for=lambda table, column: table == "exchanges" or column.endswith("_sent")
    )


@few(6)
@given(networks(["fedavg"], fewest_peers=2, drifts=False, failures=False, patience=None))
def test_identical_peers_stay_identical_under_fedavg(network):
    """Bit for bit in their models, and but for rounding in how good these are.

    Processors may sum differently where data begin at another address.
    """
    twins = replace(network, order=(0,) * network.num_peers)
    with twins.simulation() as simulation:
        while not simulation.finished:
            now = simulation.advance()
            for name, values in now.measures.items():
                # Only sampled clients train, each in its own order of batches.
                if name != "train_loss":
                    np.testing.assert_allclose(values, values[0], rtol=1e-5, err_msg=name)
            models = simulation.state.current
            np.testing.assert_array_equal(models, models[:1].repeat(len(models), axis=0))
