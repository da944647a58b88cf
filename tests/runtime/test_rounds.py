"""Rounds as a whole: bests, stopping, shifts, absences, messages, servers, divergence."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import CLASSES, drifting_simulation, metrics_of, options_for

from coterie.errors import ConfigError, TrainingError
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.runtime.settings import Absence, NetworkSettings
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.local import Local
from coterie.strategies.oracle import Oracle
from coterie.strategies.random import Random
from coterie.strategies.server.central import Central
from coterie.strategies.server.fedavg import FedAvg


def test_validation_before_merge_is_that_of_the_round_before(make_simulation):
    with make_simulation(lambda: Random(fetches=3)) as simulation:
        previous = simulation.advance()
        while not simulation.finished:
            now = simulation.advance()
            for measure in ("loss", "score"):
                np.testing.assert_array_equal(
                    now.measures[f"validation_{measure}_before"],
                    previous.measures[f"validation_{measure}_trained"],
                )
            merged = now.measures["validation_loss_merged"]
            assert (merged != now.measures["validation_loss_before"]).all()
            assert (merged != now.measures["validation_loss_trained"]).all()
            previous = now


def test_who_merges_nothing_has_the_same_validation_before_and_after(make_simulation):
    with make_simulation(Local) as simulation:
        simulation.advance()
        now = simulation.advance()
        np.testing.assert_array_equal(
            now.measures["validation_loss_before"], now.measures["validation_loss_merged"]
        )


@pytest.mark.parametrize("best", ["any", "trained"])
def test_best_model_is_the_one_with_the_lowest_validation_loss(make_simulation, best):
    """With "any", a merged model counts before it is trained; with "trained" it does not."""
    with make_simulation(
        lambda: Random(fetches=3),
        best=best,
        rounds=8,
        training=TrainingSettings(learning_rate=0.05),
    ) as simulation:
        lowest = np.full(6, np.inf)
        while not simulation.finished:
            now = simulation.advance()
            lowest = np.fmin(lowest, now.measures["validation_loss_trained"])
            if best == "any" and now.number > 0:
                lowest = np.fmin(lowest, now.measures["validation_loss_merged"])
        state = simulation.state
        jobs = [
            EvaluateJob(ModelReference("best", peer), state.samples[peer].validation)
            for peer in range(6)
        ]
        reached = [result.loss for result in state.trainer.evaluate(jobs)]
    np.testing.assert_allclose(reached, lowest, rtol=1e-12)


@pytest.mark.parametrize(("best", "other"), [("any", "trained"), ("trained", "any")])
def test_the_bests_of_both_rules_can_be_compared_in_one_run(make_simulation, best, other):
    def last(**settings):
        training = TrainingSettings(learning_rate=0.05)
        with make_simulation(
            lambda: Random(fetches=3), rounds=8, training=training, **settings
        ) as simulation:
            while not simulation.finished:
                if simulation.next_round == 5:  # both survive a checkpoint
                    simulation.restore(simulation.save())
                now = simulation.advance()
        return now.measures

    both, alone = last(best=best, compare_bests=True), last(best=other)
    for measure in ("loss", "score"):
        np.testing.assert_array_equal(both[f"test_{measure}_other"], alone[f"test_{measure}"])
        assert np.isnan(alone[f"test_{measure}_other"]).all()
    assert (both["test_loss"] != both["test_loss_other"]).any()


def test_the_final_test_uses_the_best_model_on_the_peers_own_test_data(make_simulation):
    with make_simulation(lambda: Random(fetches=3), rounds=5, test_every=2) as simulation:
        tested = []
        while not simulation.finished:
            now = simulation.advance()
            tested.append(bool(np.isfinite(now.measures["test_score"]).all()))
        state = simulation.state
        jobs = [
            EvaluateJob(ModelReference("best", peer), state.samples[peer].test) for peer in range(6)
        ]
        expected = [result.score for result in state.trainer.evaluate(jobs)]
    np.testing.assert_array_equal(now.measures["test_score"], expected)
    assert tested == [True, False, True, False, True, True]


def test_a_stopped_peer_keeps_serving_its_best_model(make_simulation):
    """It neither merges nor trains, but others still fetch from it."""
    settings = {"patience": 1, "rounds": 30, "training": TrainingSettings(learning_rate=0.2)}
    with make_simulation(lambda: Random(fetches=5), **settings) as simulation:
        stopped_before = np.zeros(6, dtype=bool)
        served = False
        while not simulation.finished:
            frozen = simulation.state.best.copy()
            now = simulation.advance()
            if stopped_before.any() and not stopped_before.all():
                np.testing.assert_array_equal(
                    simulation.state.published[stopped_before], frozen[stopped_before]
                )
                assert np.isnan(now.measures["train_loss"][stopped_before]).all()
                senders = now.exchanges.columns()["sender"]
                served |= bool(np.isin(senders, np.flatnonzero(stopped_before)).any())
                assert set(now.tables()["metrics"]["status"]) == {"active", "stopped"}
            stopped_before = simulation.state.progress.stopped.copy()
        assert served
        assert now.number < 30, "the run ends when all peers have stopped"
        assert np.isfinite(now.measures["test_score"]).all()


def test_a_shift_gives_new_data_and_wakes_all_peers_up():
    with drifting_simulation(
        Local, patience=1, training=TrainingSettings(learning_rate=0.3)
    ) as simulation:
        for _ in range(4):
            now = simulation.advance()
        before = [
            simulation.datasets.pools[0].inputs.copy(),
            simulation.state.progress.stopped.copy(),
        ]
        assert before[1].any(), "the test needs a stopped peer"
        current = simulation.state.current.copy()
        captured = []
        runtime_run = simulation._runtime.run
        simulation._runtime.run = lambda now: (
            captured.append(simulation.state.current.copy()),
            runtime_run(now),
        )
        now = simulation.advance()
        assert now.number == 4
        assert now.step == 1
        assert (simulation.datasets.pools[0].inputs != before[0]).any()
        assert set(now.tables()["metrics"]["status"]) == {"active"}
        np.testing.assert_array_equal(captured[0], current)
        assert np.isfinite(now.measures["train_loss"]).all()


def test_peers_are_tested_on_the_distribution_they_have_now():
    """Two meanings of the labels are exchanged; test targets must follow at once."""
    with drifting_simulation(Local) as simulation:
        for round_number in range(7):
            now = simulation.advance()
            step = 0 if round_number <= 3 else 1
            assert now.truth.clusters.tolist() == [[0, 1] * 2, [1, 0] * 2][step]
            for peer in range(4):
                test = simulation.state.samples[peer].test
                pool = simulation.datasets.pools[test.pool]
                largest = pool.inputs[:, :CLASSES].argmax(axis=1)
                swapped = np.array([1, 0, 2])[largest]
                meaning = swapped if now.truth.clusters[peer] else largest
                np.testing.assert_array_equal(pool.targets, meaning)


def test_the_round_before_a_shift_is_tested():
    with drifting_simulation(Local, test_every=100) as simulation:
        tested = [
            bool(np.isfinite(simulation.advance().measures["test_loss"]).all()) for _ in range(7)
        ]
    assert tested == [True, False, False, True, False, False, True]


def test_best_memory_starts_anew_at_a_shift():
    """A best from before the shift must not survive it, however low its loss was."""
    with drifting_simulation(Local, training=TrainingSettings(learning_rate=0.05)) as simulation:
        for _ in range(5):
            now = simulation.advance()
        assert (simulation.state.progress.best_round >= 3).all()
        trained = now.measures["validation_loss_trained"]
        np.testing.assert_array_equal(simulation.state.progress.best_value, trained)


def test_oracle_follows_the_clusters_through_a_shift():
    with drifting_simulation(lambda: Oracle(fetches=1)) as simulation:
        simulation.advance()
        while not simulation.finished:
            now = simulation.advance()
            columns = now.exchanges.columns()
            clusters = now.truth.clusters
            assert len(columns["kind"]) == 4
            assert (clusters[columns["sender"]] == clusters[columns["receiver"]]).all()


def test_offline_peers_take_no_part(make_simulation):
    trace = (Absence(peer=2, first_round=1, last_round=2),)
    with make_simulation(
        lambda: Random(fetches=5), network=NetworkSettings(offline_trace=trace)
    ) as simulation:
        simulation.advance()
        before = simulation.state.current[2].copy()
        now = simulation.advance()
        columns = now.exchanges.columns()
        assert 2 not in columns["sender"]
        assert 2 not in columns["receiver"]
        assert len(columns["kind"]) == 5 * 4, "the others see one offer less"
        np.testing.assert_array_equal(simulation.state.current[2], before)
        assert now.tables()["metrics"]["status"][2] == "offline"
        simulation.advance()
        assert 2 in simulation.advance().exchanges.columns()["receiver"]


def test_lost_messages_are_sent_but_not_received(make_simulation):
    network = NetworkSettings(loss_probability=0.5)
    with make_simulation(lambda: Random(fetches=5), network=network) as simulation:
        simulation.advance()
        now = simulation.advance()
        metrics = now.tables()["metrics"]
        assert metrics["models_sent"].sum() == 30
        assert 0 < metrics["models_received"].sum() < 30
        lost = ~now.exchanges.columns()["delivered"]
        assert np.isnan(now.exchanges.columns()["weight"][lost]).all()


def test_when_every_message_is_lost_everybody_trains_alone(make_simulation):
    network = NetworkSettings(loss_probability=1.0)
    with (
        make_simulation(lambda: Random(fetches=5), network=network) as isolated,
        make_simulation(Local) as alone,
    ):
        while not alone.finished:
            one, other = isolated.advance(), alone.advance()
            np.testing.assert_array_equal(one.measures["train_loss"], other.measures["train_loss"])


def test_traffic_counts_models_and_bytes(make_simulation):
    with make_simulation(lambda: Random(fetches=2)) as simulation:
        simulation.advance()
        metrics = simulation.advance().tables()["metrics"]
        size = simulation.state.layout.num_bytes
        assert (metrics["models_received"] == 2).all()
        assert metrics["models_sent"].sum() == 12
        np.testing.assert_array_equal(metrics["bytes_received"], metrics["models_received"] * size)
        np.testing.assert_array_equal(metrics["bytes_sent"], metrics["models_sent"] * size)


def test_fedavg_averages_the_clients_it_trained_by_sample_counts(make_simulation):
    sizes = [8, 16, 24, 32]
    with make_simulation(lambda: FedAvg(fetches=2), sizes, rounds=1) as simulation:
        simulation.advance()
        start = simulation.state.server[0].copy()
        trained = {}
        note = simulation.state.record_training_losses

        def capture(now, losses):
            trained.update({client: simulation.state.current[client].copy() for client in losses})
            note(now, losses)

        simulation.state.record_training_losses = capture
        now = simulation.advance()
        total = sum(sizes[client] for client in trained)
        expected = sum(sizes[client] / total * model for client, model in trained.items())
        assert len(trained) == 2
        np.testing.assert_allclose(simulation.state.server[0], expected, rtol=1e-5, atol=1e-7)
        assert (simulation.state.server[0] != start).any()
        assert (simulation.state.current == simulation.state.server[0]).all()
        columns = now.exchanges.columns()
        assert sorted(columns["kind"]) == ["download"] * 2 + ["upload"] * 2
        assert now.tables()["metrics"]["models_received"].sum() == 2


@pytest.mark.parametrize(("scope", "num_models"), [("cluster", 2), ("all", 1)])
def test_central_trains_on_pooled_data(make_simulation, scope, num_models):
    with make_simulation(lambda: Central(scope), rounds=30) as simulation:
        table = metrics_of(simulation)
        assert len(simulation.state.server) == num_models
        models = simulation.state.current
        same_as_first = [(row == models[0]).all() for row in models]
        assert same_as_first == ([True, False] * 3 if scope == "cluster" else [True] * 6)
        assert np.asarray(table["models_sent"]).sum() == 0


def test_central_per_cluster_beats_central_for_all_when_clusters_disagree(make_simulation):
    accuracy = {}
    for scope in ("cluster", "all"):
        with make_simulation(lambda s=scope: Central(s), [40] * 6, rounds=30) as simulation:
            accuracy[scope] = np.asarray(metrics_of(simulation)["test_score"])[-6:].mean()
    assert accuracy["cluster"] > accuracy["all"] + 0.2


def test_one_peer_alone(make_simulation):
    for name in STRATEGIES:
        options = options_for(name, 0)
        with make_simulation(lambda n=name, o=options: make_strategy(n, o), [16]) as simulation:
            table = metrics_of(simulation)
        assert np.isfinite(np.asarray(table["test_score"])[-1])


def test_divergence_names_peer_and_round(make_simulation):
    reckless = TrainingSettings(learning_rate=1e30, optimizer="sgd")
    message = r"diverged in round \d+: the model of peer 0 .*learning"
    with (
        make_simulation(Local, training=reckless) as simulation,
        pytest.raises(TrainingError, match=message),
    ):
        metrics_of(simulation)


def test_zero_threads_are_refused(make_simulation):
    with pytest.raises(ConfigError, match="threads is 0, but it must be from 1 to 1024"):
        make_simulation(Local, threads=0)
