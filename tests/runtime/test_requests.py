"""Each request is answered as the papers mean it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from coterie.errors import StrategyError
from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.runtime.round import Round
from coterie.simulation.simulation import Simulation
from coterie.strategies.gossip import Gossip
from coterie.strategies.local import Local
from coterie.strategies.oracle import Oracle
from coterie.strategies.random import Random
from coterie.strategies.requests import AskScore, Fetch, Merge, Plan, Receive, Score, Send, Train
from coterie.strategies.strategy import Me, Strategy


@dataclass
class Scripted(Strategy):
    """Does what a test wrote down and keeps the answers."""

    script: object = None
    answers: list[object] = field(default_factory=list, init=False)
    name = "scripted"
    summary = "does what a test wrote down"

    def round(self, me: Me) -> Plan:
        for request in self.script(me):
            self.answers.append((yield request))


def scripted(make_simulation, script, **kwargs) -> Simulation:
    return make_simulation(lambda: Scripted(script), **kwargs)


def answers_of(simulation: Simulation, peer: int) -> list[object]:
    return simulation._runtime.strategies[peer].answers


def start(simulation: Simulation) -> np.ndarray:
    """Run the initial training and return the published models."""
    simulation.advance()
    return simulation.state.published.copy()


def advance_and_see_merged(simulation: Simulation) -> tuple[Round, np.ndarray]:
    """Run a round; return it with the working models as they were just before training."""
    seen = []
    train = simulation._runtime._handlers[Train]

    def look_first(now, requests):
        seen.append(simulation.state.current.copy())
        return train(now, requests)

    simulation._runtime._handlers[Train] = look_first
    return simulation.advance(), seen[0]


def other(me: Me) -> int:
    return (me.peer + 1) % len(me.known)


def test_everybody_starts_with_one_local_training(make_simulation):
    with make_simulation(Local) as simulation:
        untrained = simulation.state.current.copy()
        now = simulation.advance()
        assert now.number == 0
        assert (simulation.state.current != untrained).any(axis=1).all()
        assert np.isfinite(now.measures["train_loss"]).all()
        np.testing.assert_array_equal(simulation.state.published, simulation.state.current)


def test_fetch_offers_models_with_sample_counts(make_simulation):
    def script(me):
        yield Fetch((other(me),))

    with scripted(make_simulation, script, sizes=[10, 20, 30]) as simulation:
        simulation.advance()
        simulation.advance()
        for peer in range(3):
            (offers,) = answers_of(simulation, peer)
            assert [(o.peer, o.num_samples) for o in offers] == [
                ((peer + 1) % 3, [10, 20, 30][(peer + 1) % 3])
            ]


def test_score_measures_their_model_on_my_training_data(make_simulation):
    @dataclass
    class Scoring(Strategy):
        seen: dict[str, float] = field(default_factory=dict, init=False)
        name = "scoring"
        summary = "scores the next peer by loss and accuracy"

        def round(self, me: Me) -> Plan:
            offers = yield Fetch((other(me),))
            losses = yield Score(tuple(offers), "loss")
            accuracies = yield Score(tuple(offers), "accuracy")
            self.seen = {"loss": losses[other(me)], "accuracy": accuracies[other(me)]}

    with make_simulation(Scoring) as simulation:
        simulation.advance()
        simulation.advance()
        state = simulation.state
        for peer in range(6):
            job = EvaluateJob(
                ModelReference("published", (peer + 1) % 6), state.samples[peer].train
            )
            expected = state.trainer.evaluate([job])[0]
            seen = simulation._runtime.strategies[peer].seen
            assert seen == {"loss": expected.loss, "accuracy": expected.score}


def test_ask_score_measures_my_model_on_their_training_data(make_simulation):
    def script(me):
        yield AskScore((other(me),), "loss")

    with scripted(make_simulation, script) as simulation:
        simulation.advance()
        now = simulation.advance()
        state = simulation.state
        for peer in range(6):
            scorer = (peer + 1) % 6
            job = EvaluateJob(ModelReference("published", peer), state.samples[scorer].train)
            expected = state.trainer.evaluate([job])[0].loss
            assert answers_of(simulation, peer) == [{scorer: expected}]
        columns = now.exchanges.columns()
        assert set(columns["kind"]) == {"probe"}
        assert (columns["receiver"] == (columns["sender"] + 1) % 6).all()
        assert (columns["bytes"] == state.layout.num_bytes).all()


def test_merge_is_the_weighted_sum_of_the_models_at_the_start_of_the_round(make_simulation):
    def script(me):
        yield Fetch((other(me),))
        yield Merge({me.peer: 0.25, other(me): 0.75})

    with scripted(make_simulation, script) as simulation:
        before = start(simulation)
        simulation.advance()
        expected = 0.25 * before + 0.75 * np.roll(before, -1, axis=0)
        np.testing.assert_allclose(simulation.state.current, expected, rtol=1e-6, atol=1e-7)


def test_federated_average_weighs_by_number_of_samples(make_simulation):
    sizes = [8, 16, 40]
    with make_simulation(lambda: Random(fetches=2), sizes, rounds=1) as simulation:
        before = start(simulation)
        now, merged = advance_and_see_merged(simulation)
        expected = (np.array(sizes)[:, None] / 64 * before).sum(axis=0)
        for row in merged:
            np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-7)
        weights = now.exchanges.columns()
        np.testing.assert_allclose(
            weights["weight"], np.array(sizes)[weights["sender"]] / 64, rtol=1e-12
        )


def test_merging_the_last_layers_leaves_the_others_alone(make_simulation):
    def script(me):
        yield Fetch((other(me),))
        yield Merge({me.peer: 0.5, other(me): 0.5}, last_layers=1)

    with scripted(make_simulation, script) as simulation:
        before = start(simulation)
        simulation.advance()
        head = simulation.state.layout.last_layers(1)[0]
        after = simulation.state.current
        np.testing.assert_array_equal(after[:, : head.start], before[:, : head.start])
        mixed = 0.5 * before + 0.5 * np.roll(before, -1, axis=0)
        np.testing.assert_allclose(after[:, head], mixed[:, head], rtol=1e-6, atol=1e-7)


def test_training_the_last_layers_leaves_the_others_alone(make_simulation):
    def script(me):
        yield Train(epochs=2, last_layers=1)

    with scripted(make_simulation, script) as simulation:
        before = start(simulation)
        simulation.advance()
        head = simulation.state.layout.last_layers(1)[0]
        after = simulation.state.current
        np.testing.assert_array_equal(after[:, : head.start], before[:, : head.start])
        assert (after[:, head] != before[:, head]).any(axis=1).all()


def test_zero_epochs_train_nothing_and_none_means_the_configured_number(make_simulation):
    def script(me):
        yield Train(epochs=0)
        yield Train(epochs=0, last_layers=1)

    with scripted(make_simulation, script) as simulation:
        before = start(simulation)
        simulation.advance()
        np.testing.assert_array_equal(simulation.state.current, before)
        assert answers_of(simulation, 0) == [None, None]


def test_fewer_than_zero_epochs_are_a_mistake_of_the_strategy(make_simulation):
    with scripted(make_simulation, lambda me: [Train(epochs=-1)]) as simulation:
        simulation.advance()
        with pytest.raises(StrategyError, match="peer 0 asked to train for -1 epochs, in round 1"):
            simulation.advance()


def test_a_second_fetch_in_a_round_sees_the_same_published_models(make_simulation):
    """HAST's second step merges models from the start of the round."""

    def script(me):
        yield Fetch((other(me),))
        yield Merge({me.peer: 0.5, other(me): 0.5})
        yield Train()
        yield Fetch((other(me),))
        yield Merge({other(me): 1.0})

    with scripted(make_simulation, script) as simulation:
        before = start(simulation)
        simulation.advance()
        np.testing.assert_array_equal(simulation.state.current, np.roll(before, -1, axis=0))


def test_two_trainings_in_a_round_see_different_batches(make_simulation):
    def twice(me):
        yield Train(epochs=1)
        yield Train(epochs=1)

    def once(me):
        yield Train(epochs=1)

    with (
        scripted(make_simulation, twice) as double,
        scripted(make_simulation, once) as single,
    ):
        start(double)
        start(single)
        first, second = double.advance(), single.advance()
        assert not np.allclose(first.measures["train_loss"], second.measures["train_loss"])


def test_sequential_peers_see_what_earlier_ones_just_did(make_simulation):
    """In turn, the second of two peers merges the first one's new model, not its old one."""

    def script(me):
        yield Fetch((other(me),))
        yield Merge({other(me): 1.0})

    with scripted(make_simulation, script, sizes=[8, 8], schedule="sequential") as simulation:
        before = start(simulation)
        assert (before[0] != before[1]).any()
        simulation.advance()
        # The first peer copied the other, and that one then copied itself back.
        np.testing.assert_array_equal(simulation.state.current[0], simulation.state.current[1])

    with scripted(make_simulation, script, sizes=[8, 8]) as simulation:
        before = start(simulation)
        simulation.advance()
        np.testing.assert_array_equal(simulation.state.current, before[::-1])


def test_sequential_order_changes_from_round_to_round(make_simulation):
    order = []

    def script(me):
        order.append(me.peer)
        yield Train()

    with scripted(make_simulation, script, schedule="sequential", rounds=4) as simulation:
        while not simulation.finished:
            simulation.advance()
    rounds = [tuple(order[start : start + 6]) for start in range(0, 24, 6)]
    assert all(sorted(each) == list(range(6)) for each in rounds)
    assert len(set(rounds)) > 1


@pytest.mark.parametrize("schedule", ["synchronous", "sequential"])
def test_push_arrives_as_it_was_sent(make_simulation, schedule):
    def script(me):
        yield Send((other(me),))
        yield Receive()
        yield Train()

    with scripted(
        make_simulation, script, sizes=[8] * 3, schedule=schedule, rounds=2
    ) as simulation:
        while not simulation.finished:
            simulation.advance()
        senders = {
            peer: [[o.peer for o in answer] for answer in answers_of(simulation, peer)[1::3]]
            for peer in range(3)
        }
    for peer, arrivals in senders.items():
        assert {sender for each in arrivals for sender in each} == {(peer - 1) % 3}
        if schedule == "synchronous":
            assert all(len(each) == 1 for each in arrivals)


def test_gossip_averages_pairwise_in_turn(make_simulation):
    """A peer that receives nothing keeps its model; arrivals are averaged one after another."""
    with make_simulation(Gossip) as simulation:
        before = start(simulation)
        now, merged = advance_and_see_merged(simulation)
        columns = now.exchanges.columns()
        assert len(columns["kind"]) == 6
        for peer in range(6):
            expected = before[peer]
            for sender in sorted(columns["sender"][columns["receiver"] == peer]):
                expected = 0.5 * expected + 0.5 * before[sender]
            np.testing.assert_allclose(merged[peer], expected, rtol=1e-5, atol=1e-7)


def test_oracle_fetches_from_its_own_true_cluster_only(make_simulation):
    with make_simulation(lambda: Oracle(fetches=2)) as simulation:
        while not simulation.finished:
            now = simulation.advance()
            columns = now.exchanges.columns()
            assert (columns["sender"] % 2 == columns["receiver"] % 2).all()


def test_only_declared_strategies_are_told_the_truth(make_simulation):
    seen = []

    def script(me):
        seen.append(me.truth)
        yield Train()

    with scripted(make_simulation, script) as simulation:
        simulation.advance()
        simulation.advance()
    assert seen == [None] * 6


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (lambda me: [Fetch((me.peer,))], "chose itself"),
        (lambda me: [AskScore((99,))], "does not exist"),
        (lambda me: [Merge({me.peer: 0.5, other(me): 0.5})], "without having its model"),
        (lambda me: [Merge({me.peer: 0.7})], "sum to 0.7"),
        (lambda me: [Merge({me.peer: float("nan")})], "merge weight nan"),
        (lambda me: ["train please"], "not a request"),
    ],
)
def test_rule_breakers_are_named(make_simulation, script, complaint):
    with scripted(make_simulation, script) as simulation:
        simulation.advance()
        with pytest.raises(StrategyError, match=complaint):
            simulation.advance()


def test_taking_over_another_model_whole_counts_as_a_merge(make_simulation):
    def script(me):
        yield Fetch((other(me),))
        yield Merge({other(me): 1.0})
        yield Train()

    with scripted(make_simulation, script) as simulation:
        simulation.advance()
        now = simulation.advance()
    before, merged = (now.measures[f"validation_loss_{when}"] for when in ("before", "merged"))
    assert (before != merged).all()


def test_what_nobody_takes_in_a_round_is_gone(make_simulation):
    """A push to a peer that does not receive must not turn up later as another model."""

    def script(me):
        if me.round == 1:
            yield Send((other(me),))
        else:
            yield Receive()

    with scripted(make_simulation, script, rounds=2) as simulation:
        while not simulation.finished:
            simulation.advance()
    assert [answers_of(simulation, peer) for peer in range(6)] == [[None, []]] * 6
