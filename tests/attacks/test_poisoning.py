"""Poisoned peers: what each kind does."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from plans import drive
from poisoned_peers import honest_numbers, peers_with_flipped_labels, poisoned_numbers
from small_runs import drifting_simulation, metrics_of, small_module
from torch import nn

from coterie.attacks.impostors import Liar
from coterie.attacks.poison_settings import PoisonSettings
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.simulation import Simulation
from coterie.strategies.dac import DAC
from coterie.strategies.delusional_oracle import DelusionalOracle
from coterie.strategies.kin.kin import Kin
from coterie.strategies.local import Local
from coterie.strategies.oracle import Oracle
from coterie.strategies.random import Random
from coterie.strategies.requests import Report, Train
from coterie.strategies.strategy import Me, Strategy

# What each kind does


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
def test_sign_flip_publishes_the_update_with_its_sign_flipped(make_simulation, schedule):
    poison = PoisonSettings(kind="sign-flip", count=2, from_round=2)
    with make_simulation(
        lambda: Random(fetches=2), rounds=4, poison=poison, schedule=schedule
    ) as simulation:
        state = simulation.state
        bad = poisoned_numbers(simulation)
        while not simulation.finished:
            published, before = state.published.copy(), state.current.copy()
            now = simulation.advance()
            np.testing.assert_array_equal(
                state.published[honest_numbers(simulation)],
                state.current[honest_numbers(simulation)],
            )
            if now.number < 2:
                np.testing.assert_array_equal(state.published, state.current)
            elif schedule == "synchronous":
                sent = now.exchanges.columns()
                for peer in bad:
                    mine = sent["receiver"] == peer
                    weights, senders = sent["weight"][mine], sent["sender"][mine]
                    merged = (1 - weights.sum()) * before[peer] + weights @ published[senders]
                    expected = merged - (state.current[peer] - merged)
                    np.testing.assert_allclose(state.published[peer], expected, atol=1e-5)
                    assert np.abs(state.published[peer] - state.current[peer]).max() > 1e-3
            else:
                assert (state.published[bad] != state.current[bad]).any(axis=1).all()


def test_sign_flip_of_a_model_that_merges_nothing_is_exact(make_simulation):
    poison = PoisonSettings(kind="sign-flip", count=1)
    with make_simulation(Local, poison=poison) as simulation:
        state, (bad,) = simulation.state, poisoned_numbers(simulation)
        simulation.advance()
        while not simulation.finished:
            before = state.current[bad].copy()
            simulation.advance()
            expected = before - (state.current[bad] - before)
            np.testing.assert_array_equal(state.published[bad], expected)


def test_noise_is_as_wide_as_each_tensor_and_new_for_each_peer_and_round(make_simulation):
    poison = PoisonSettings(kind="noise", count=2, from_round=2)
    with make_simulation(Local, poison=poison, rounds=6) as simulation:
        state, added = simulation.state, []
        for _ in range(2):
            simulation.advance()
            np.testing.assert_array_equal(state.published, state.current)
        while not simulation.finished:
            simulation.advance()
            for peer in poisoned_numbers(simulation):
                noise = state.published[peer] - state.current[peer]
                for entry in state.layout.entries:
                    part = slice(entry.start, entry.stop)
                    noise[part] /= state.current[peer][part].std()
                added.append(noise)
        assert len(np.unique(np.round(added, 3), axis=0)) == 10
        for entry in state.layout.entries:
            assert np.std([noise[entry.start : entry.stop] for noise in added]) == pytest.approx(
                1, abs=0.25
            )
        np.testing.assert_array_equal(
            state.published[honest_numbers(simulation)], state.current[honest_numbers(simulation)]
        )


def test_absent_peers_neither_ask_nor_answer_nor_train(make_simulation):
    poison = PoisonSettings(kind="absent", count=2, from_round=2)
    with make_simulation(lambda: Random(fetches=5), rounds=4, poison=poison) as simulation:
        bad = poisoned_numbers(simulation)
        while not simulation.finished:
            before = simulation.state.current.copy()
            now = simulation.advance()
            sent = now.exchanges.columns()
            if now.number == 1:
                assert set(bad) <= set(sent["receiver"])
            elif now.number > 1:
                assert np.flatnonzero(~now.online).tolist() == bad
                assert not set(bad) & set(sent["receiver"])
                np.testing.assert_array_equal(np.isin(sent["sender"], bad), ~sent["delivered"])
                np.testing.assert_array_equal(simulation.state.current[bad], before[bad])


def test_what_is_not_trained_stays_as_it_is(make_datasets):
    """Noise would make variances negative, and the models of honest peers that merge them NaN."""

    def build():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    poison = PoisonSettings(kind="noise", count=1)
    settings = SimulationSettings(rounds=1, poison=poison)
    with Simulation(make_datasets([8] * 2), build, Local, settings, tell=len) as simulation:
        metrics_of(simulation)
        state = simulation.state
        buffers = [entry for entry in state.layout.entries if not entry.trainable]
        assert buffers
        for entry in buffers:
            part = slice(entry.start, entry.stop)
            np.testing.assert_array_equal(state.published[:, part], state.current[:, part])


@pytest.mark.parametrize("metric", ["inverse-loss", "cosine-gradients"])
def test_stale_peers_publish_what_they_had_for_ever(make_simulation, metric):
    """And the change that goes with it."""
    poison = PoisonSettings(kind="stale", count=2, from_round=3)
    with make_simulation(
        lambda: DAC(fetches=2, metric=metric), rounds=6, poison=poison
    ) as simulation:
        state, bad = simulation.state, poisoned_numbers(simulation)
        for _ in range(3):
            simulation.advance()
        old = state.published[bad].copy()
        np.testing.assert_array_equal(old, state.current[bad])
        changes = None if state.untrained is None else state.untrained[bad].copy()
        while not simulation.finished:
            current = state.current[bad].copy()
            simulation.advance()
            np.testing.assert_array_equal(state.published[bad], old)
            assert (state.current[bad] != current).any(), "it trains all the same"
            if changes is not None:
                np.testing.assert_array_equal(state.untrained[bad], changes)


@pytest.mark.parametrize("regression", [False, True])
def test_label_flip_is_training_on_flipped_labels(regression):
    """The very same bits as with data that were flipped by hand."""
    build = partial(nn.Linear, 6, 1) if regression else small_module
    poison = PoisonSettings(kind="label-flip", count=2)
    states = []
    datasets = peers_with_flipped_labels([], regression=regression)
    targets = datasets.pools[0].targets.copy()
    with Simulation(
        datasets, build, Local, SimulationSettings(rounds=2, poison=poison), tell=len
    ) as simulation:
        bad = poisoned_numbers(simulation)
        metrics_of(simulation)
        states.append(simulation.state)
    np.testing.assert_array_equal(datasets.pools[0].targets, targets, "the data are still honest")
    assert len(datasets.pools) == 1
    # Honest in the initial training: only then are the two runs different.
    with (
        Simulation(
            peers_with_flipped_labels(bad, regression=regression),
            build,
            Local,
            SimulationSettings(rounds=2),
            tell=len,
        ) as by_hand,
        Simulation(
            peers_with_flipped_labels([], regression=regression),
            build,
            Local,
            SimulationSettings(rounds=2),
            tell=len,
        ) as first,
    ):
        first.advance()
        by_hand.restore(first.save())
        metrics_of(by_hand)
        states.append(by_hand.state)
    np.testing.assert_array_equal(states[0].current, states[1].current)


@pytest.mark.parametrize("from_round", [1, 2, 4])
def test_labels_are_flipped_from_a_round_on_and_in_every_concept(from_round):
    """Peers move to another meaning of the labels before round 4."""
    poison = PoisonSettings(kind="label-flip", count=2, from_round=from_round)
    with drifting_simulation(Local, poison=poison, rounds=7) as simulation:
        state, bad = simulation.state, poisoned_numbers(simulation)
        concepts = set()
        while not simulation.finished:
            now = simulation.advance()
            concepts.add(tuple(now.truth.clusters))
            for peer, true in enumerate(simulation.datasets.load_step(now.step)):
                seen = state.samples[peer]
                for part in ("train", "validation", "test"):
                    given = getattr(seen, part)
                    pool, honest_pool = (
                        state.workspace.pools[given.pool],
                        simulation.datasets.pools[getattr(true, part).pool],
                    )
                    assert np.shares_memory(pool.inputs, honest_pool.inputs)
                    labels = honest_pool.targets[given.rows()]
                    flipped = peer in bad and now.number >= from_round and part != "test"
                    expected = 2 - labels if flipped else labels
                    np.testing.assert_array_equal(pool.targets[given.rows()], expected)
        assert len(concepts) == 2


def test_delusional_peers_are_those_of_the_delusional_oracle(make_simulation):
    """The same peers do the same, and the models are the same bits."""
    poison = PoisonSettings(kind="delusional", count=2, cluster=1, from_round=2)
    models = []
    for strategy, settings in (
        (lambda: Oracle(fetches=2), {"poison": poison}),
        (lambda: DelusionalOracle(fetches=2, delusional=2, cluster=1, from_round=2), {}),
    ):
        with make_simulation(strategy, rounds=4, **settings) as simulation:
            metrics_of(simulation)
            models.append(simulation.best_models())
            if settings:
                assert poisoned_numbers(simulation) == [1, 3]
    np.testing.assert_array_equal(*models)


@pytest.mark.parametrize(("strategy", "fetches"), [(lambda: Kin(fetches=2), 2), (Local, 3)])
def test_delusional_peers_fetch_from_other_clusters_only(make_simulation, strategy, fetches):
    """As many as their strategy does; of 5, if it fetches nothing, only 3 are there."""
    poison = PoisonSettings(kind="delusional", count=2, from_round=2)
    with make_simulation(strategy, rounds=4, poison=poison) as simulation:
        bad = poisoned_numbers(simulation)
        while not simulation.finished:
            now = simulation.advance()
            sent = now.exchanges.columns()
            for peer in bad if now.number >= 2 else ():
                senders = sent["sender"][sent["receiver"] == peer]
                assert len(senders) == fetches
                assert (senders % 2 != peer % 2).all()


class Gossiper(Strategy):
    """Reports its kind, and sends a table with all kinds of arrays."""

    name = "gossiper"

    def round(self, me):
        assert me.truth is None, "only the impostor may know"
        yield Report({0: 0.25, 2: 1.0})
        answer = yield Train()
        assert answer == "trained"

    def message(self):
        return {
            "peers": np.array([3, 4]),
            "shares": np.array([0.0, 0.25, np.nan]),
            "losses": np.array([1.0, 4.0, 2.0], np.float32),
            "nothing": np.zeros(0),
            "unknown": np.array([np.nan]),
        }


def test_a_liar_says_the_opposite_and_is_honest_otherwise():
    liar = Liar(Gossiper(), from_round=3)

    def asked(number: int):
        me = Me(1, number, np.arange(5), 10, np.random.default_rng(0), truth=object())
        return drive(liar.round(me), lambda request: "trained" if request == Train() else None)

    assert asked(2) == [Report({0: 0.25, 2: 1.0}), Train()]
    for name, values in Gossiper().message().items():
        np.testing.assert_array_equal(liar.message()[name], values)
    assert asked(3) == [Report({0: 0.75, 2: 0.0}), Train()]
    message = liar.message()
    assert message["peers"].tolist() == [3, 4]
    np.testing.assert_array_equal(message["shares"], [1.0, 0.75, np.nan])
    assert message["losses"].tolist() == [4.0, 1.0, 3.0]
    assert message["losses"].dtype == np.float32
    assert message["nothing"].shape == (0,)
    assert np.isnan(message["unknown"]).all()


def test_lies_reach_others_with_models_that_are_honest(make_simulation):
    poison = PoisonSettings(kind="liar", count=2, from_round=2)
    with make_simulation(lambda: Kin(fetches=3), rounds=3, poison=poison) as simulation:
        runtime, state = simulation._runtime, simulation.state
        while not simulation.finished:
            now = simulation.advance()
            np.testing.assert_array_equal(state.published, state.current)
            for peer in poisoned_numbers(simulation):
                said = runtime._messages[peer]
                found = runtime.strategies[peer].honest.message()
                floats = [name for name, values in found.items() if values.dtype.kind == "f"]
                assert floats
                for name in floats:
                    known = found[name][np.isfinite(found[name])]
                    lies = now.number >= 2 and len(known)
                    assert not len(known) or (known.min() >= 0 and known.max() <= 1)
                    np.testing.assert_array_equal(
                        said[name], 1 - found[name] if lies else found[name]
                    )
