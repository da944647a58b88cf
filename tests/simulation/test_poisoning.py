"""Poisoned peers: what each kind does, who they are, and that nobody's results count them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
from plans import drive
from torch import nn
from worlds import assert_same_table, drifting, metrics_of, small_module

from coterie.analyses.recorded import Recorded
from coterie.config import build_model, make_scenario, with_changes
from coterie.data.own import OwnData, PeerData
from coterie.errors import ConfigError
from coterie.execution import Run, execute
from coterie.presets import find_preset
from coterie.simulation.impostors import Liar
from coterie.simulation.poisoning import poisoned_peers
from coterie.simulation.recorder import Recorder
from coterie.simulation.records import YOUNGER, read_table
from coterie.simulation.run import run_to_end
from coterie.simulation.settings import PoisonSettings, SimulationSettings
from coterie.simulation.simulator import Simulation
from coterie.strategies.base import Me, Strategy, Tell, Train
from coterie.strategies.dac import DAC
from coterie.strategies.delusional_oracle import DelusionalOracle
from coterie.strategies.fedavg import FedAvg
from coterie.strategies.kin import Kin
from coterie.strategies.local import Local
from coterie.strategies.oracle import Oracle
from coterie.strategies.random import Random
from coterie.swarm.suitability import for_real_peers

KINDS = ("sign-flip", "noise", "label-flip", "stale", "delusional", "liar")


def who(simulation: Simulation) -> list[int]:
    return np.flatnonzero(simulation.state.poisoning.peers).tolist()


def honest(simulation: Simulation) -> list[int]:
    return np.flatnonzero(~simulation.state.poisoning.peers).tolist()


# What each kind does


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
def test_sign_flip_publishes_the_update_with_its_sign_flipped(make_simulation, schedule):
    poison = PoisonSettings(kind="sign-flip", count=2, from_round=2)
    with make_simulation(
        lambda: Random(fetches=2), rounds=4, poison=poison, schedule=schedule
    ) as simulation:
        state = simulation.state
        bad = who(simulation)
        while not simulation.finished:
            published, before = state.published.copy(), state.current.copy()
            now = simulation.advance()
            np.testing.assert_array_equal(
                state.published[honest(simulation)], state.current[honest(simulation)]
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
        state, (bad,) = simulation.state, who(simulation)
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
            for peer in who(simulation):
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
            state.published[honest(simulation)], state.current[honest(simulation)]
        )


def test_what_is_not_trained_stays_as_it_is(make_world):
    """Noise would make variances negative, and models of NaN of the honest who merge them."""

    def build():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    poison = PoisonSettings(kind="noise", count=1)
    settings = SimulationSettings(rounds=1, poison=poison)
    with Simulation(make_world([8] * 2), build, Local, settings, tell=len) as simulation:
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
        state, bad = simulation.state, who(simulation)
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


def own_data(flipped: list[int], *, regression: bool) -> OwnData:
    """Six peers, some of them with flipped labels in all that they learn from."""
    rng = np.random.default_rng(0)

    def draw(count: int, *, flip: bool):
        points = rng.normal(size=(count, 6)).astype(np.float32)
        if regression:
            return points, points.sum(axis=1) * (-1 if flip else 1)
        labels = points[:, :3].argmax(axis=1)
        return points, 2 - labels if flip else labels

    return OwnData(
        [
            PeerData(draw(16, flip=p in flipped), draw(12, flip=p in flipped), draw(9, flip=False))
            for p in range(6)
        ]
    )


@pytest.mark.parametrize("regression", [False, True])
def test_label_flip_is_training_on_flipped_labels(regression):
    """The very same bits as with data that were flipped by hand."""
    build = partial(nn.Linear, 6, 1) if regression else small_module
    poison = PoisonSettings(kind="label-flip", count=2)
    states = []
    world = own_data([], regression=regression)
    targets = world.pools[0].targets.copy()
    with Simulation(
        world, build, Local, SimulationSettings(rounds=2, poison=poison), tell=len
    ) as simulation:
        bad = who(simulation)
        metrics_of(simulation)
        states.append(simulation.state)
    np.testing.assert_array_equal(world.pools[0].targets, targets, "the data are still honest")
    assert len(world.pools) == 1
    # Honest in the initial training: only then are the two runs different.
    with (
        Simulation(
            own_data(bad, regression=regression),
            build,
            Local,
            SimulationSettings(rounds=2),
            tell=len,
        ) as by_hand,
        Simulation(
            own_data([], regression=regression),
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
    with drifting(Local, poison=poison, rounds=7) as simulation:
        state, bad = simulation.state, who(simulation)
        concepts = set()
        while not simulation.finished:
            now = simulation.advance()
            concepts.add(tuple(now.truth.clusters))
            for peer, true in enumerate(simulation.world.enter(now.step)):
                seen = state.samples[peer]
                for part in ("train", "validation", "test"):
                    given = getattr(seen, part)
                    pool, honest_pool = (
                        state.workspace.pools[given.pool],
                        simulation.world.pools[getattr(true, part).pool],
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
                assert who(simulation) == [1, 3]
    np.testing.assert_array_equal(*models)


@pytest.mark.parametrize(("strategy", "fetches"), [(lambda: Kin(fetches=2), 2), (Local, 3)])
def test_delusional_peers_fetch_from_other_clusters_only(make_simulation, strategy, fetches):
    """As many as their strategy does; of 5, if it fetches nothing, only 3 are there."""
    poison = PoisonSettings(kind="delusional", count=2, from_round=2)
    with make_simulation(strategy, rounds=4, poison=poison) as simulation:
        bad = who(simulation)
        while not simulation.finished:
            now = simulation.advance()
            sent = now.exchanges.columns()
            for peer in bad if now.number >= 2 else ():
                senders = sent["sender"][sent["receiver"] == peer]
                assert len(senders) == fetches
                assert (senders % 2 != peer % 2).all()


class Gossiper(Strategy):
    """Tells what it is, and sends a table of everything that a liar may meet."""

    name = "gossiper"

    def round(self, me):
        assert me.truth is None, "only the impostor may know"
        yield Tell({0: 0.25, 2: 1.0})
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

    assert asked(2) == [Tell({0: 0.25, 2: 1.0}), Train()]
    for name, values in Gossiper().message().items():
        np.testing.assert_array_equal(liar.message()[name], values)
    assert asked(3) == [Tell({0: 0.75, 2: 0.0}), Train()]
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
            for peer in who(simulation):
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


# Who is poisoned


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
            drawn.append(who(simulation))
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
def test_how_many_are_poisoned(make_world, settings, expected):
    """Of 15 peers, 8 in the first cluster; rounded to the nearest."""
    world = make_world([8] * 15)
    poisoned = poisoned_peers(PoisonSettings(kind="noise", **settings), world, 0)
    assert poisoned.sum() == expected
    if "cluster" in settings:
        assert (world.clusters(0)[poisoned] == settings["cluster"]).all()


def test_more_poison_is_more_of_the_same(make_world):
    world = make_world([8] * 15)
    few, many = (
        poisoned_peers(PoisonSettings(kind="noise", count=count), world, 0) for count in (3, 6)
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
        return drifting(lambda: DAC(fetches=2), schedule=schedule, poison=poison)

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
        bad = who(simulation)
        metrics = metrics_of(simulation)
    is_bad = np.isin(metrics["peer"].to_numpy(), bad)
    np.testing.assert_array_equal(metrics["poisoned"].to_numpy(), is_bad)
    for name in ("train_loss", "validation_loss_trained", "validation_accuracy_trained"):
        np.testing.assert_array_equal(np.isnan(metrics[name].to_numpy()), is_bad)
    tested = ~np.isnan(metrics["test_accuracy"].to_numpy())
    np.testing.assert_array_equal(tested, ~is_bad & (metrics["round"].to_numpy() % 2 == 0))


def test_strategies_still_hear_how_good_a_poisoned_peer_is(make_simulation):
    """What is left out of the records is not hidden from the peer itself."""
    heard = []

    class Curious(Local):
        def round(self, me):
            heard.append(me.validation_accuracy)
            return super().round(me)

    with make_simulation(Curious, poison=PoisonSettings(kind="stale", count=3)) as simulation:
        metrics_of(simulation)
    assert len(heard) == 18
    assert not np.isnan(heard).any()


def digits(**changes):
    small = {"peers.count": 8, "rounds": 2, "strategy.fetches": 2}
    (config,) = find_preset("digits").runs(["random"], [0], {**small, **changes})
    return config


def test_the_summary_is_of_the_honest(tmp_path):
    config = digits(**{"poison.kind": "sign-flip", "poison.share": 0.4})
    run = Run(tmp_path / "run", config)
    run.lay_out()
    world = make_scenario(config)
    execute(run, lambda: world, threads=1, tell=len, how_to_continue="")
    poisoned = poisoned_peers(config.poison, world, 0)
    assert poisoned.sum() == 3
    accuracies = read_table(run.folder, "metrics")["test_accuracy"].to_numpy()[-8:]
    np.testing.assert_array_equal(np.isnan(accuracies), poisoned)
    assert run.outcome.mean == pytest.approx(accuracies[~poisoned].mean())
    with Simulation(
        world,
        lambda: build_model(config, world.num_outputs),
        lambda: Random(fetches=2),
        config,
        tell=len,
    ) as again:
        metrics_of(again)
        validated = again.state.validate_best()[1]
    assert run.outcome.validation == validated[~poisoned].mean() != validated.mean()


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
    pq.write_table(new.drop_columns(list(YOUNGER)), path)
    old = Recorded("local", 0, tmp_path, 6).table("metrics")
    assert_same_table(old, new)


# What cannot work


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"poison.share": None}, "say how many peers are poisoned, either by share or by count"),
        ({"poison.count": 2}, "either by share or by count"),
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
    assert with_changes(digits(), {"poison.share": 0.3}).poison.kind == "none"


@pytest.mark.parametrize(
    ("poison", "strategy", "message"),
    [
        ({"count": 7}, Local, "poison.count is 7, but there are only 6 peers. Use at most 6"),
        ({"count": 4, "cluster": 1}, Local, "only 3 peers that begin in cluster 1"),
        ({"share": 0.5, "cluster": 2}, Local, "poison.cluster is 2, but the 2 true clusters are"),
        ({"share": 1}, Local, "leave none of the 6 peers honest"),
        ({"share": 0.5}, FedAvg, "strategy 'fedavg' has a server in the middle"),
    ],
)
def test_poison_that_does_not_fit_the_peers(make_simulation, poison, strategy, message):
    with pytest.raises(ConfigError, match=message):
        make_simulation(strategy, poison=PoisonSettings(kind="noise", **poison))


def test_nobody_is_deluded_where_there_is_one_cluster():
    settings = SimulationSettings(poison=PoisonSettings(kind="delusional", count=1))
    with pytest.raises(ConfigError, match="needs at least two true clusters"):
        Simulation(own_data([], regression=False), small_module, Local, settings)


def test_real_peers_cannot_be_poisoned():
    with pytest.raises(ConfigError, match="real peers misbehave only if somebody makes them"):
        for_real_peers(digits(**{"poison.kind": "noise", "poison.share": 0.3}), {}, own_pace=False)


def test_poison_scales_with_rounds_and_peers():
    preset = find_preset("digits")
    poison = PoisonSettings(kind="stale", count=8, from_round=20)
    preset = replace(preset, config=preset.config.model_copy(update={"poison": poison}))
    (config,) = preset.runs(["random"], [0], {}, scale=0.25)
    assert (config.poison.count, config.poison.from_round) == (2, 5)
