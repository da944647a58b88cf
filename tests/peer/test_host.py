"""What others learn of a peer: how far it is and what it offers."""

import asyncio

import numpy as np
import pytest
from torch import nn

from coterie.data.peer_arrays import PeerData
from coterie.learning.trainer import TrainingSettings
from coterie.models.vector import vector_of
from coterie.peer.model_scoring import Judge
from coterie.peer.peer_data import OwnWorld
from coterie.peer.refusals import Reason, Rejected
from coterie.peer.service import PeerHost
from coterie.peer.transport.interface import Model, Part, Phase, Pulled
from coterie.strategies import make_strategy

LONG = 20.0


def build():
    return nn.Sequential(nn.Linear(4, 3))


@pytest.fixture
def judge():
    rng = np.random.default_rng(0)
    steps = []
    for shift in (0, 1):
        inputs = rng.normal(size=(30, 4)).astype(np.float32)
        labels = (inputs.argmax(1) + shift) % 3
        steps.append(PeerData((inputs, labels), (inputs, labels), (inputs, labels)))
    made = Judge(OwnWorld(steps, [0, 5]), build, TrainingSettings(), print)
    yield made
    made.close()


def in_a_loop(judge, play, **options):
    async def run():
        given = {
            "answers_scores": True,
            "takes_pushes": True,
            "listens": True,
            "largest_inbox": 2,
        } | options
        return await play(PeerHost(judge, **given))

    return asyncio.run(run())


def model():
    return Model({Part.MODEL: np.zeros(15, np.float32)})


def test_the_last_two_models_are_offered(judge):
    async def play(host):
        assert await host.published(None, 0) is None
        for number in range(4):
            await host.publish(number, 30, model())
        return [await host.published(number, 0) for number in (None, 0, 1, 2, 3, 4)]

    newest, *by_round = in_a_loop(judge, play)
    assert newest.round == 3
    assert [each and each.round for each in by_round] == [None, None, 2, 3, None]


def test_a_round_to_come_is_waited_for(judge):
    async def play(host):
        waiting = asyncio.create_task(host.published(1, LONG))
        await host.publish(0, 30, model())
        await asyncio.sleep(0)
        assert not waiting.done()
        await host.publish(1, 30, model())
        return (await waiting).round, await host.published(2, 0.01)

    assert in_a_loop(judge, play) == (1, None)


def test_a_round_that_is_past_is_not_waited_for(judge):
    async def play(host):
        for number in range(3):
            await host.publish(number, 30, model())
        return await asyncio.wait_for(host.published(0, LONG), LONG / 2)

    assert in_a_loop(judge, play) is None


def test_phases_go_forward_only(judge):
    async def play(host):
        await host.reach(2, Phase.SENT)
        await host.reach(2, Phase.ENTERED)
        await host.reach(1, Phase.PUBLISHED)
        waiting = asyncio.create_task(host.reached(2, Phase.PUBLISHED, LONG))
        await asyncio.sleep(0)
        seen = await host.reached(2, Phase.SENT, LONG), waiting.done()
        await host.publish(2, 30, model())
        return *seen, await waiting

    assert in_a_loop(judge, play) == (
        (2, Phase.SENT, None), False, (2, Phase.PUBLISHED, 2),
    )  # fmt: skip


def pushed(sender, number=0):
    return Pulled(sender, number, 0.0, 30, model(), 60, 0.0)


def test_of_each_sender_the_newest_waits_and_not_too_many(judge):
    async def play(host):
        await host.receive(pushed("a", 1))
        await host.receive(pushed("b", 1))
        await host.receive(pushed("a", 2))
        with pytest.raises(Rejected) as caught:
            await host.receive(pushed("c"))
        return caught.value.reason, host.take_arrivals(), host.take_arrivals()

    reason, arrivals, nothing = in_a_loop(judge, play)
    assert reason is Reason.BUSY
    assert {who: each.round for who, each in arrivals.items()} == {"a": 2, "b": 1}
    assert nothing == {}


def test_models_are_judged_on_the_training_data_of_the_round(judge):
    vector = vector_of(build())

    async def play(host):
        first = await host.score(vector, "loss", 0)
        later = await host.score(vector, "loss", 5)
        await host.reach(7, Phase.ENTERED)
        return first, later, await host.score(vector, "loss", None)

    first, later, now = in_a_loop(judge, play)
    assert first != later == now
    assert 0 <= asyncio.run(judge.measure(vector, "accuracy", 0)) <= 1
    assert judge.metrics == {"loss", "accuracy"}


def test_who_asks_nobody_answers_nobody(judge):
    async def play(host):
        return host.metrics

    assert in_a_loop(judge, play) == {"loss", "accuracy"}
    assert in_a_loop(judge, play, answers_scores=False) == frozenset()


@pytest.mark.parametrize(
    ("name", "options", "asks"),
    [
        ("dac", {}, False),
        ("dac", {"measured_by": "them"}, True),
        ("dac", {"measured_by": "them", "metric": "cosine-weights"}, False),
        ("pens", {}, True),
        ("pens", {"metric": "inverse-distance"}, False),
        ("greedy", {}, True),
        ("random-weighted", {}, True),
        ("hast", {}, False),
    ],
)
def test_strategies_say_whether_they_ask(name, options, asks):
    assert make_strategy(name, options).asks_for_scores() == asks


def test_what_was_told_is_heard_once_and_in_its_time(judge):
    async def play(host):
        await host.hear("a", 0.1, 3)
        await host.hear("a", 0.2, 4)
        await host.hear("a", 0.3, 5)
        await host.hear("b", 0.3, 5)
        return host.take_told(5), host.take_told(5), host.take_told(None), host.take_told(None)

    assert in_a_loop(judge, play) == (
        {"a": 0.2}, {}, {"a": 0.3, "b": 0.3}, {},
    )  # fmt: skip
