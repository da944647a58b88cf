"""What others learn of a peer: how far it is and what it offers."""

import asyncio

import numpy as np
import pytest
from torch import nn

from coterie.data.peer_arrays import PeerData
from coterie.learning.settings import TrainingSettings
from coterie.models.vector import vector_of
from coterie.peer.model_scoring import ModelScorer
from coterie.peer.peer_data import LocalPeerData
from coterie.peer.refusals import Reason, Refused
from coterie.peer.service import PeerService
from coterie.peer.transport.service_interface import PulledModel
from coterie.peer.wire.model import Model, Part, Phase
from coterie.strategies import make_strategy

LONG = 20.0


def build():
    return nn.Sequential(nn.Linear(4, 3))


@pytest.fixture
def scorer():
    rng = np.random.default_rng(0)
    steps = []
    for shift in (0, 1):
        inputs = rng.normal(size=(30, 4)).astype(np.float32)
        labels = (inputs.argmax(1) + shift) % 3
        steps.append(PeerData((inputs, labels), (inputs, labels), (inputs, labels)))
    made = ModelScorer(LocalPeerData(steps, [0, 5]), build, TrainingSettings(), print)
    yield made
    made.close()


def in_a_loop(scorer, play, **options):
    async def run():
        given = {
            "answers_scores": True,
            "receives_models": True,
            "receives_reports": True,
            "largest_inbox": 2,
        } | options
        return await play(PeerService(scorer, **given))

    return asyncio.run(run())


def model():
    return Model({Part.MODEL: np.zeros(15, np.float32)})


def test_the_last_two_models_are_offered(scorer):
    async def play(service):
        assert await service.get_published(None, 0) is None
        for number in range(4):
            await service.publish(number, 30, model())
        return [await service.get_published(number, 0) for number in (None, 0, 1, 2, 3, 4)]

    newest, *by_round = in_a_loop(scorer, play)
    assert newest.round == 3
    assert [each and each.round for each in by_round] == [None, None, 2, 3, None]


def test_a_round_to_come_is_waited_for(scorer):
    async def play(service):
        waiting = asyncio.create_task(service.get_published(1, LONG))
        await service.publish(0, 30, model())
        await asyncio.sleep(0)
        assert not waiting.done()
        await service.publish(1, 30, model())
        return (await waiting).round, await service.get_published(2, 0.01)

    assert in_a_loop(scorer, play) == (1, None)


def test_a_round_that_is_past_is_not_waited_for(scorer):
    async def play(service):
        for number in range(3):
            await service.publish(number, 30, model())
        return await asyncio.wait_for(service.get_published(0, LONG), LONG / 2)

    assert in_a_loop(scorer, play) is None


def test_phases_go_forward_only(scorer):
    async def play(service):
        await service.set_progress(2, Phase.SENT)
        await service.set_progress(2, Phase.ENTERED)
        await service.set_progress(1, Phase.PUBLISHED)
        waiting = asyncio.create_task(service.wait_for_phase(2, Phase.PUBLISHED, LONG))
        await asyncio.sleep(0)
        seen = await service.wait_for_phase(2, Phase.SENT, LONG), waiting.done()
        await service.publish(2, 30, model())
        return *seen, await waiting

    assert in_a_loop(scorer, play) == (
        (2, Phase.SENT, None), False, (2, Phase.PUBLISHED, 2),
    )  # fmt: skip


def pushed(sender, number=0):
    return PulledModel(sender, number, 0.0, 30, model(), 60, 0.0)


def test_of_each_sender_the_newest_waits_and_not_too_many(scorer):
    async def play(service):
        await service.store_pushed(pushed("a", 1))
        await service.store_pushed(pushed("b", 1))
        await service.store_pushed(pushed("a", 2))
        with pytest.raises(Refused) as caught:
            await service.store_pushed(pushed("c"))
        return caught.value.reason, service.take_pushed(), service.take_pushed()

    reason, arrivals, nothing = in_a_loop(scorer, play)
    assert reason is Reason.BUSY
    assert {who: each.round for who, each in arrivals.items()} == {"a": 2, "b": 1}
    assert nothing == {}


def test_models_are_judged_on_the_training_data_of_the_round(scorer):
    vector = vector_of(build())

    async def play(service):
        first = await service.score(vector, "loss", 0)
        later = await service.score(vector, "loss", 5)
        await service.set_progress(7, Phase.ENTERED)
        return first, later, await service.score(vector, "loss", None)

    first, later, now = in_a_loop(scorer, play)
    assert first != later == now
    assert 0 <= asyncio.run(scorer.score(vector, "accuracy", 0)) <= 1
    assert scorer.metrics == {"loss", "accuracy"}


def test_who_asks_nobody_answers_nobody(scorer):
    async def play(service):
        return service.metrics

    assert in_a_loop(scorer, play) == {"loss", "accuracy"}
    assert in_a_loop(scorer, play, answers_scores=False) == frozenset()


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


def test_what_was_told_is_heard_once_and_in_its_time(scorer):
    async def play(service):
        await service.store_report("a", 0.1, 3)
        await service.store_report("a", 0.2, 4)
        await service.store_report("a", 0.3, 5)
        await service.store_report("b", 0.3, 5)
        return (
            service.take_reports(5),
            service.take_reports(5),
            service.take_reports(None),
            service.take_reports(None),
        )

    assert in_a_loop(scorer, play) == (
        {"a": 0.2}, {}, {"a": 0.3, "b": 0.3}, {},
    )  # fmt: skip
