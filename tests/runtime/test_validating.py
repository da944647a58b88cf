"""What `Validate` and `ValidateMerge` measure; nothing is measured twice or remembered wrongly."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from small_runs import drifting_simulation, options_for

from coterie.attacks.poison_settings import PoisonSettings
from coterie.errors import StrategyError
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, Evaluation, ModelReference
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.kin.kin import Kin
from coterie.strategies.requests import Fetch, Merge, Plan, Train, Validate, ValidateMerge
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Asking(Strategy):
    """Fetches the next peer, asks one question of a test, and keeps the answer."""

    question: object = None
    answer: object = field(default=None, init=False)
    name = "asking"
    summary = "asks what a test wants to know"

    def round(self, me: Me) -> Plan:
        yield Fetch(((me.peer + 1) % 6,))
        self.answer = yield self.question(me)


@contextmanager
def asked(make_simulation, question):
    """Run a round of six peers; give the state, and what each was answered."""
    with make_simulation(lambda: Asking(question)) as simulation:
        simulation.advance()
        simulation.advance()
        yield simulation.state, [each.answer for each in simulation._runtime.strategies]


def measured(state, matrix, row, samples):
    (result,) = state.trainer.evaluate([EvaluateJob(ModelReference(matrix, row), samples)])
    return result.losses


class TestValidate:
    @pytest.mark.parametrize("data", ["validation", "train"])
    def test_models_are_measured_sample_by_sample(self, make_simulation, data):
        def question(me):
            return Validate((me.peer, (me.peer + 1) % 6), data)

        with asked(make_simulation, question) as (state, answers):
            for peer, answer in enumerate(answers):
                samples = getattr(state.samples[peer], data)
                assert len(samples) == {"validation": 12, "train": 16}[data]
                other = (peer + 1) % 6
                assert sorted(answer) == sorted([peer, other])
                mine, theirs = (measured(state, "current", row, samples) for row in (peer, other))
                np.testing.assert_array_equal(answer[peer], mine)
                np.testing.assert_array_equal(answer[other], theirs)
                assert (mine != theirs).any()

    @pytest.mark.parametrize("data", ["validation", "train"])
    def test_only_what_was_fetched(self, make_simulation, data):
        with (
            pytest.raises(StrategyError, match="validated peer 2 without a fetch"),
            asked(make_simulation, lambda me: Validate((2,), data)),
        ):
            pytest.fail("Only peers 1 and 2 may do so.")

    def test_only_data_that_peers_have(self, make_simulation):
        with (
            pytest.raises(StrategyError, match="peer 0 asked to measure on 'test' data, in round"),
            asked(make_simulation, lambda me: Validate((me.peer,), "test")),
        ):
            pytest.fail("Peers have no test data.")

    def test_kin_compares_strangers_on_training_samples_of_its_own(self, make_simulation):
        requested = []
        with make_simulation(lambda: Kin(fetches=2)) as simulation:
            validate = simulation._runtime._validate
            simulation._runtime._handlers[Validate] = lambda now, requests: (
                requested.extend(requests.values()) or validate(now, requests)
            )
            simulation.advance()
            simulation.advance()
        assert [each.data for each in requested].count("train") == 6
        assert len(requested) == 5 * 6


def test_trying_is_merging_without_doing_it(make_simulation):
    def weights(me):
        return {me.peer: 0.25, (me.peer + 1) % 6: 0.75}

    with (
        asked(make_simulation, lambda me: ValidateMerge(weights(me))) as (state, answers),
        asked(make_simulation, lambda me: Merge(weights(me))) as (merged, _),
    ):
        assert (merged.current != state.current).any(axis=1).all()
        for peer, answer in enumerate(answers):
            expected = measured(merged, "current", peer, merged.samples[peer].validation)
            np.testing.assert_array_equal(answer, expected)


# What is remembered of working models


def assert_fresh(simulation: Simulation, known: dict[int, Evaluation]) -> None:
    """Compare what is known of working models with what they reach now, bit for bit."""
    state = simulation.state
    for peer, evaluation in known.items():
        job = EvaluateJob(ModelReference("current", peer), state.samples[peer].validation)
        (now,) = state.trainer.evaluate([job])
        np.testing.assert_array_equal(evaluation.losses, now.losses)
        assert evaluation.score == now.score


def watch(simulation: Simulation) -> list[int]:
    """Check each validation of working models; return the list of validated peers."""
    seen: list[int] = []
    look = simulation.state.validation

    def checked(peers):
        wanted = list(map(int, peers))
        found = look(wanted)
        assert_fresh(simulation, dict(zip(wanted, found, strict=True)))
        seen.extend(wanted)
        return found

    simulation.state.validation = checked
    return seen


def troubled(name: str, *, schedule: str, restraint: bool | None = None) -> Simulation:
    """Data that drift, labels that are flipped from round 2 on, and peers that lose patience."""
    is_peer = issubclass(STRATEGIES[name], Strategy)
    poison = PoisonSettings(kind="label-flip", count=1, from_round=2) if is_peer else None
    options = options_for(name, 2)
    return drifting_simulation(
        lambda: make_strategy(name, options),
        schedule=schedule,
        patience=1,
        initialisation="independent",
        training=TrainingSettings(epochs=2, learning_rate=0.1, restraint=restraint),
        poison=poison or PoisonSettings(),
    )


@pytest.mark.parametrize("name", list(STRATEGIES))
@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
@pytest.mark.parametrize("restraint", [None, True])
def test_what_is_remembered_is_what_models_reach(name, schedule, restraint):
    with troubled(name, schedule=schedule, restraint=restraint) as simulation:
        seen = watch(simulation)
        while not simulation.finished:
            simulation.advance()
            assert_fresh(simulation, simulation.state._validated)
    assert set(seen) == {0, 1, 2, 3}


def test_it_is_forgotten_when_a_state_is_restored():
    with troubled("random", schedule="synchronous") as simulation:
        simulation.advance()
        saved = simulation.state.save()
        saved["current"] = saved["current"] + np.float32(1)
        simulation.state.validation(range(4))
        simulation.state.restore(saved)
        assert_fresh(simulation, dict(enumerate(simulation.state.validation(range(4)))))


def evaluations_of(simulation: Simulation) -> list[EvaluateJob]:
    """Return the jobs of the rounds to come, as they are done."""
    jobs: list[EvaluateJob] = []
    evaluate = simulation.state.trainer.evaluate

    def counted(asked):
        jobs.extend(asked)
        return evaluate(asked)

    simulation.state.trainer.evaluate = counted
    return jobs


def test_nothing_is_measured_twice(make_simulation):
    """Of own models: what was tried and merged, and what came out of the round before."""

    def script(me):
        weights = {me.peer: 0.5, (me.peer + 1) % 6: 0.5}
        yield Validate((me.peer,))
        yield Fetch(((me.peer + 1) % 6,))
        yield ValidateMerge(weights)
        yield Merge(weights)
        yield Train(restrained=True)
        yield Validate((me.peer,))

    with make_simulation(lambda: Script(script), test_every=99, rounds=9) as simulation:
        simulation.advance()
        jobs = evaluations_of(simulation)
        simulation.advance()
        assert sorted((job.model.matrix, job.model.row) for job in jobs) == [
            *(("current", peer) for peer in range(6)),
            *(("trials", row) for row in range(6)),
        ]


@dataclass
class Script(Strategy):
    """Does what a test wrote down."""

    script: object = None
    name = "script"
    summary = "does what a test wrote down"

    def round(self, me: Me) -> Plan:
        yield from self.script(me)


def test_what_was_tried_before_a_training_is_measured_anew(make_simulation):
    def script(me):
        yield ValidateMerge({me.peer: 1.0})
        yield Train()
        yield Merge({me.peer: 1.0})

    with make_simulation(lambda: Script(script)) as simulation:
        watch(simulation)
        while not simulation.finished:
            simulation.advance()


def test_the_order_of_a_sum_decides_its_last_bits(make_simulation):
    def script(me):
        weights = {(me.peer + place) % 6: share for place, share in enumerate((0.3, 0.5, 0.2))}
        yield Fetch(tuple(weights)[1:])
        yield ValidateMerge(weights)
        yield Merge(dict(reversed(weights.items())))

    with make_simulation(lambda: Script(script), initialisation="independent") as simulation:
        watch(simulation)
        while not simulation.finished:
            simulation.advance()


@pytest.mark.parametrize("last_layers", [(None, 1), (1, None)])
def test_what_was_tried_is_only_what_was_merged(make_simulation, last_layers):
    """Other weights, or other layers, make another model."""

    def script(me):
        other = (me.peer + 1) % 6
        yield Fetch((other,))
        yield ValidateMerge({me.peer: 0.5, other: 0.5}, last_layers[0])
        yield Merge({me.peer: 0.5, other: 0.5}, last_layers[1])
        yield Train()
        yield ValidateMerge({me.peer: 0.5, other: 0.5})
        yield Merge({me.peer: 0.25, other: 0.75})

    with make_simulation(lambda: Script(script)) as simulation:
        seen = watch(simulation)
        simulation.advance()
        simulation.advance()
        assert seen.count(0) == 3
