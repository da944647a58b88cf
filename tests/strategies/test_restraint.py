"""Restraint: rule by rule, and in simulations, where setting and strategy decide who has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from small_runs import drifting_simulation, layered_module

from coterie.learning.settings import TrainingSettings
from coterie.runtime.checkpoints import Checkpoints
from coterie.strategies.hast import HAST
from coterie.strategies.kin.kin import Kin
from coterie.strategies.kin.restraint import Restraint
from coterie.strategies.local import Local
from coterie.strategies.random import Random
from coterie.strategies.requests import Plan, Train
from coterie.strategies.strategy import Me, Strategy

GOOD = np.tile(np.float32([1.0, 1.2]), 10)
BETTER = GOOD - np.float32(0.1)
WORSE = GOOD + np.tile(np.float32([1.0, 2.0]), 10)
A_LITTLE_WORSE = GOOD + np.tile(np.float32([1.0, -0.8]), 10)
"""Higher on average, but not significantly so."""


class TestRules:
    def one(self, *rounds, most=3):
        """Return the epochs of the first of two peers after rounds of (before, after)."""
        restraint = Restraint(most, 2)
        for before, after in rounds:
            restraint.record_training(0, before, after)
        assert restraint.epochs[1] == most
        return restraint.epochs[0]

    def test_everybody_begins_with_the_configured_epochs(self):
        assert Restraint(4, 3).epochs.tolist() == [4, 4, 4]

    def test_harm_without_progress_makes_it_an_epoch_shorter(self):
        assert self.one((GOOD, GOOD), (GOOD, WORSE)) == 2
        assert self.one((GOOD, GOOD), (GOOD, WORSE), (GOOD, WORSE)) == 1

    def test_harm_with_progress_does_not(self):
        assert self.one((WORSE, WORSE), (GOOD, WORSE), (BETTER, WORSE)) == 3

    def test_the_first_time_is_progress(self):
        assert self.one((GOOD, WORSE)) == 3

    def test_no_progress_without_harm_changes_nothing(self):
        shorter = [(GOOD, GOOD), (GOOD, WORSE)]
        for after in (GOOD, BETTER, A_LITTLE_WORSE):
            assert self.one(*shorter, (GOOD, after)) == 2

    def test_progress_makes_it_an_epoch_longer(self):
        shorter = [(GOOD, GOOD), (GOOD, WORSE), (GOOD, WORSE)]
        assert self.one(*shorter, (BETTER, WORSE)) == 2

    def test_progress_is_measured_by_the_lowest_so_far(self):
        assert self.one((BETTER, BETTER), (WORSE, WORSE), (GOOD, WORSE)) == 2

    def test_after_a_round_without_training_comes_one_epoch(self):
        none = [(GOOD, GOOD), *[(GOOD, WORSE)] * 3]
        assert self.one(*none) == 0
        assert self.one(*none, (WORSE, WORSE)) == 1
        assert self.one(*none, (WORSE, WORSE), (WORSE, WORSE)) == 1
        assert self.one(*none, (GOOD, GOOD), (GOOD, WORSE)) == 0

    def test_never_more_than_configured(self):
        better_and_better = [(GOOD - np.float32(step / 10), GOOD) for step in range(9)]
        assert self.one(*better_and_better, most=2) == 2

    def test_all_starts_anew_when_data_change(self):
        restraint = Restraint(3, 1)
        for before, after in [(BETTER, BETTER), (GOOD, WORSE)]:
            restraint.record_training(0, before, after)
        restraint.reset()
        assert restraint.epochs.tolist() == [3]
        restraint.record_training(0, WORSE, WORSE + WORSE)  # better than anything since
        assert restraint.epochs.tolist() == [3]

    def test_it_survives_saving(self):
        restraint = Restraint(3, 1)
        for before, after in [(BETTER, BETTER), (GOOD, WORSE)]:
            restraint.record_training(0, before, after)
        again = Restraint(3, 1)
        again.restore(restraint.save())
        assert again.epochs.tolist() == [2]
        again.record_training(0, GOOD, WORSE)  # no progress: it remembers that it was better
        assert again.epochs.tolist() == [1]


def training(**settings):
    return TrainingSettings(**{"epochs": 2, "learning_rate": 0.05, **settings})


def trains(simulation, *, allowed=0):
    """Allow everybody so many epochs, run a round, and return who trained."""
    simulation.advance()
    simulation.state.restraint.epochs[:] = allowed
    now = simulation.advance()
    return np.isfinite(now.measures["train_loss"])


class TestInASimulation:
    def test_without_an_epoch_a_model_stays_what_it_is(self, make_simulation):
        with make_simulation(Local, training=training(restraint=True)) as simulation:
            state = simulation.state
            simulation.advance()
            before = state.current.copy()
            state.restraint.epochs[2] = 0
            now = simulation.advance()
            trained = np.arange(6) != 2
            assert (np.isnan(now.measures["train_loss"]) == ~trained).all()
            assert ((state.current != before).any(axis=1) == trained).all()
            np.testing.assert_array_equal(state.published[2], before[2])
            losses = now.measures["validation_loss_trained"]
            assert losses[2] == now.measures["validation_loss_before"][2]
            assert state.restraint.epochs[2] == 1
            assert np.isfinite(simulation.advance().measures["train_loss"]).all()

    def test_as_many_epochs_as_are_allowed(self, make_simulation):
        """Two of three epochs are what a run with two epochs does."""
        results = []
        for epochs, allowed in ((3, 2), (2, 2)):
            settings = training(restraint=True, epochs=epochs)
            with make_simulation(Local, training=settings) as simulation:
                start = simulation.state.current.copy()
                simulation.state.restraint.epochs[:] = allowed
                simulation.advance()
                assert (simulation.state.current != start).any(axis=1).all()
                results.append(simulation.state.current.copy())
        np.testing.assert_array_equal(*results)

    @pytest.mark.parametrize(
        ("strategy", "setting", "restrained"),
        [
            (Local, None, False),
            (Local, True, True),
            (Local, False, False),
            (lambda: Random(fetches=2), True, True),
            (lambda: Kin(fetches=2), None, True),
            (lambda: Kin(fetches=2), True, True),
            (lambda: Kin(fetches=2), False, False),
            (lambda: Kin(fetches=2, restraint=False), None, False),
            (lambda: Kin(fetches=2, restraint=False), True, True),
        ],
    )
    def test_the_setting_comes_before_the_strategy(
        self, make_simulation, strategy, setting, restrained
    ):
        with make_simulation(strategy, training=training(restraint=setting)) as simulation:
            assert (trains(simulation) != restrained).all()
            learnt = simulation.state.restraint.epochs != 0
            assert (learnt == restrained).all()

    def test_what_is_learnt_are_models_before_and_after_training(self, make_simulation):
        with make_simulation(lambda: Kin(fetches=2), training=training()) as simulation:
            learnt = {}
            simulation.state.restraint.record_training = lambda peer, *both: learnt.update(
                {peer: both}
            )
            simulation.advance()
            assert learnt == {}, "round 0 is not for the strategy to restrain"
            now = simulation.advance()
        for place, when in enumerate(("merged", "trained")):
            expected = now.measures[f"validation_loss_{when}"]
            found = [learnt[peer][place].mean(dtype=np.float64) for peer in range(6)]
            np.testing.assert_allclose(found, expected, rtol=1e-6)

    @pytest.mark.parametrize("setting", [None, True])
    def test_epochs_a_strategy_asks_for_are_trained(self, make_simulation, setting):
        with make_simulation(
            lambda: Fixed(restrained=True), training=training(restraint=setting)
        ) as simulation:
            assert trains(simulation).all()

    def test_hast_trains_and_tunes_as_ever(self, make_simulation):
        """Its fine-tuning is kept only if it is better: that is restraint enough."""
        results = []
        for allowed in (0, 2):
            with make_simulation(lambda: HAST(fetches=2), training=training()) as simulation:
                assert trains(simulation, allowed=allowed).all()
                results.append(simulation.state.current.copy())
        np.testing.assert_array_equal(*results)

    def test_what_is_kept_only_if_better_is_trained_in_full(self, make_simulation):
        """Of HAST's two trainings the first is restrained, the second is not."""
        with make_simulation(
            lambda: HAST(fetches=2), module=layered_module, training=training(restraint=True)
        ) as simulation:
            simulation.advance()
            simulation.state.restraint.epochs[:] = 0
            train, jobs = simulation.state.trainer.train, []
            simulation.state.trainer.train = lambda asked: jobs.extend(asked) or train(asked)
            simulation.advance()
        assert [job.epochs for job in jobs] == [2] * 6
        assert {job.last_layers for job in jobs} == {simulation.state.depth("classifier")}

    def test_a_shift_of_the_data_starts_it_anew(self):
        with drifting_simulation(lambda: Kin(fetches=2), training=training(epochs=3)) as simulation:
            while simulation.datasets.step_of(simulation.next_round) == 0:
                simulation.advance()
            simulation.state.restraint.epochs[:] = 0
            now = simulation.advance()
            assert now.step == 1
            assert np.isfinite(now.measures["train_loss"]).all()
            assert simulation.state.restraint.epochs.tolist() == [3] * 4


@dataclass
class Fixed(Strategy):
    """Says how many epochs it wants."""

    restrained: bool = False
    name = "fixed"
    summary = "trains one epoch, whatever is configured"

    def round(self, me: Me) -> Plan:
        yield Train(epochs=1, restrained=self.restrained)


def long_run(make_simulation):
    """A run in which training does harm: few samples, and a high learning rate."""
    return make_simulation(
        lambda: Kin(fetches=2),
        [14] * 6,
        rounds=12,
        training=training(epochs=3, learning_rate=0.2),
    )


def test_where_training_does_harm_peers_train_less(make_simulation):
    with long_run(make_simulation) as simulation:
        epochs = []
        while not simulation.finished:
            simulation.advance()
            epochs.append(simulation.state.restraint.epochs.copy())
    assert (epochs[0] == 3).all()
    assert np.min(epochs) == 0
    assert np.max(epochs) == 3
    assert (np.abs(np.diff(epochs, axis=0)) <= 1).all()


@pytest.mark.parametrize("stop_after", [3, 6, 9])
def test_going_on_later_changes_nothing(make_simulation, tmp_path, stop_after):
    with long_run(make_simulation) as whole:
        expected = []
        while not whole.finished:
            expected.append(whole.advance().measures)
            if len(expected) == stop_after:
                Checkpoints(tmp_path).write(stop_after, whole.save())
                assert whole.state.restraint.epochs.min() < 3
    saved = Checkpoints(tmp_path).read_newest(pytest.fail)
    with long_run(make_simulation) as second:
        second.restore(saved)
        for measures in expected[stop_after:]:
            for name, values in second.advance().measures.items():
                np.testing.assert_array_equal(values, measures[name], err_msg=name)
        np.testing.assert_array_equal(second.state.current, whole.state.current)
