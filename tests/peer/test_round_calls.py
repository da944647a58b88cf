"""What a round calls for: all peers at once, answers in order, and wasted time accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from network_of_peers import TestPeer, eventually, make_peer, network, published, settings_of

from coterie.peer.discovery.discovery import Discovery
from coterie.peer.event_loop_bridge import EventLoopBridge
from coterie.peer.refusals import Reason, Refused
from coterie.peer.round_calls import AT_ONCE, SLOW_FACTOR, SLOW_SECONDS, RoundCalls
from coterie.peer.transport_settings import DeadlineSettings
from coterie.peer.wire.model import ONLY_MODEL, Part

IMPATIENT = {"patience_seconds": 0, "first_rest_seconds": 1000, "longest_pause_seconds": 1000}
"""The first time wasted is too much, and a rest ends only when a test moves the clock."""


class Clock:
    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def busy(peer: TestPeer) -> Iterator[None]:
    """Let a peer refuse to say what it offers; not as busy, which would be asked again."""

    async def refuse(*_: object) -> None:
        raise Refused(Reason.QUOTA, "not now")

    peer.service.get_published, before = refuse, peer.service.get_published
    try:
        yield
    finally:
        peer.service.get_published = before


def link_of(peer: TestPeer, *, synchronous: bool = False) -> EventLoopBridge:
    deadlines = DeadlineSettings(fetch_seconds=30)
    return EventLoopBridge(peer.client, peer.address_book, None, deadlines, synchronous=synchronous)


async def fetched(bridge: EventLoopBridge, numbers: list[int]) -> list[tuple[int, bool]]:
    answers = await asyncio.to_thread(bridge.fetch, numbers, 0, ONLY_MODEL)
    return [(number, pulled is not None) for number, pulled in answers]


def test_all_calls_of_a_round_are_under_way_at_once_but_not_more_than_allowed(tmp_path):
    async def play() -> None:
        calls = RoundCalls(make_peer(tmp_path / "me").address_book, synchronous=True)
        everybody = asyncio.Barrier(AT_ONCE)  # no call is answered before all are made
        num_asked = most = 0

        async def call(number: int) -> int:
            nonlocal num_asked, most
            num_asked += 1
            most = max(most, num_asked)
            await everybody.wait()
            num_asked -= 1
            return -number

        asked = list(range(2 * AT_ONCE))
        async with asyncio.timeout(60):
            answers = await calls.run_all(asked, call)
        assert answers == [(number, -number) for number in asked]
        assert most == AT_ONCE

    asyncio.run(play())


def test_answers_stand_in_the_order_of_the_questions_whatever_comes_first(tmp_path):
    async def play() -> None:
        calls = RoundCalls(make_peer(tmp_path / "me").address_book, synchronous=True)
        done = [asyncio.Event() for _ in range(6)]
        done[-1].set()

        async def call(number: int) -> int:
            await done[number].wait()  # until the one after it has answered
            if number:
                done[number - 1].set()
            return number

        answers = await calls.run_all(range(6), call)
        assert answers == [(number, number) for number in range(6)]

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("call", ["fetch", "tell", "ask_score", "push"])
def test_a_round_asks_all_peers_at_the_same_time(tmp_path, call):
    """Over real connections: each peer answers only when all have been asked."""

    async def play() -> None:
        async with network(tmp_path, 4) as (me, *others):
            all_asked = asyncio.Barrier(len(others))
            for each in others:
                await each.service.publish(published())
                _hold(each, call, all_asked)
            await me.service.publish(published())
            bridge = EventLoopBridge(
                me.client, me.address_book, me.service, DeadlineSettings(), synchronous=False
            )
            numbers = [3, 1, 2]
            if call == "fetch":
                answers = await asyncio.to_thread(bridge.fetch, numbers, 0, ONLY_MODEL)
            elif call == "tell":
                answers = await asyncio.to_thread(bridge.report, dict.fromkeys(numbers, 0.5), 0)
            elif call == "ask_score":
                answers = await asyncio.to_thread(bridge.ask_score, numbers, "first", 0)
            else:
                answers = await asyncio.to_thread(bridge.push, numbers, 0)
            found = [each[0] if isinstance(each, tuple) else each for each in answers]
            assert found == numbers

    asyncio.run(asyncio.wait_for(play(), 120))


def _hold(peer: TestPeer, call: str, all_asked: asyncio.Barrier) -> None:
    names = {
        "fetch": "get_published",
        "tell": "store_report",
        "ask_score": "score",
        "push": "store_pushed",
    }
    answer = getattr(peer.service, names[call])

    async def held(*given: object) -> object:
        await all_asked.wait()
        return await answer(*given)

    setattr(peer.service, names[call], held)


def test_a_peer_that_wasted_time_is_not_asked_and_seems_not_to_be_there(tmp_path):
    async def play() -> None:
        clock = Clock()
        settings = settings_of(breaker=IMPATIENT)
        ann, bob, cyd = (
            make_peer(tmp_path / name, settings=settings, clock=clock)
            for name in ("ann", "bob", "cyd")
        )
        async with _introduced(ann, bob, cyd):
            for each in (bob, cyd):
                await each.service.publish(published())
            bridge = link_of(ann)
            with busy(bob):
                assert await fetched(bridge, [1, 2]) == [(1, False), (2, True)]
                assert await asyncio.to_thread(bridge.reachable_peers) == [2]
                num_calls = sum(ann.context.traffic.calls.values())
                await ann.client.say_hello(bob.id)  # any answer closes the breaker, but not this
                assert await asyncio.to_thread(bridge.reachable_peers) == [2]
                for answer in (
                    await fetched(bridge, [1]),
                    await asyncio.to_thread(bridge.report, {1: 0.5}, 0),
                ):
                    assert answer == []
                asked = sum(ann.context.traffic.calls.values()) - num_calls
                assert asked == 1, "it was asked, not only greeted"

    asyncio.run(play())


def test_a_peer_comes_back_by_a_trial_beside_the_rounds(tmp_path):
    async def play() -> None:
        clock = Clock()
        settings = settings_of(breaker=IMPATIENT)
        ann, bob = (
            make_peer(tmp_path / name, settings=settings, clock=clock) for name in ("ann", "bob")
        )
        async with _introduced(ann, bob):
            await bob.service.publish(published())
            bridge = link_of(ann)
            parts = frozenset({Part.MODEL, Part.LAST_UPDATE})
            meeting = Discovery(
                ann.client, ann.address_book, [], ann.address_book.rng, lambda: bridge.parts
            )
            asked: list[frozenset[Part]] = []
            manifest = bob.context.payload_cache.manifest

            async def noted(published: object, parts: frozenset[Part], *given: object) -> object:
                asked.append(parts)
                return await manifest(published, parts, *given)

            bob.context.payload_cache.manifest = noted
            with busy(bob):
                await asyncio.to_thread(bridge.fetch, [1], 0, parts)
                await meeting.run_once()
                assert not meeting._trials, "its rest is not over"
                clock.now += 1001
                await meeting.run_once()
                await eventually(lambda: not meeting._trials)
                assert ann.address_book.resting() == [1], "the trial went no better"
            clock.now += 1001
            await meeting.run_once()
            await meeting.run_once()  # one trial at a time
            await eventually(lambda: not meeting._trials)
            assert ann.address_book.resting() == []
            assert asked == [parts], "the trial shows by what it asks for"
            assert await fetched(bridge, [1]) == [(1, True)]

    asyncio.run(play())


def test_where_rounds_are_aligned_everybody_is_asked_however_late(tmp_path):
    async def play() -> None:
        async with network(tmp_path, 2, settings=settings_of(breaker=IMPATIENT)) as (ann, bob):
            await bob.service.publish(published())
            bridge = link_of(ann, synchronous=True)
            with busy(bob):
                for _ in range(5):
                    assert await fetched(bridge, [1]) == [(1, False)]
            assert ann.address_book.reachable() == [1]
            assert await fetched(bridge, [1]) == [(1, True)]

    asyncio.run(play())


def test_a_peer_without_a_first_model_is_waited_for_only_once(tmp_path):
    async def play() -> None:
        settings = settings_of(breaker=IMPATIENT)
        async with network(tmp_path, 2, settings=settings) as (ann, bob):
            calls = []

            async def none_yet(round_number: object, wait_seconds: float) -> None:
                calls.append(wait_seconds)

            bob.service.get_published = none_yet
            bridge = link_of(ann)
            assert await fetched(bridge, [1]) == [(1, False)]
            assert ann.address_book.resting() == [], "it was to wait, and did"
            await fetched(bridge, [1])
            assert calls[0] == pytest.approx(10, abs=0.01)
            assert calls[1:] == [0]

    asyncio.run(play())


def test_an_answer_that_is_slower_than_usual_is_time_wasted(tmp_path):
    async def play() -> None:
        clock = Clock()
        ann, bob = (make_peer(tmp_path / name, clock=clock) for name in ("ann", "bob"))
        ann.trusts(bob)
        ann.address_book.announce("127.0.0.1:1")
        bob.address_book.announce("127.0.0.1:2")
        ann.knows(bob)
        calls = RoundCalls(ann.address_book, synchronous=False, clock=clock)

        async def answer_after(seconds: float) -> None:
            async def call() -> None:
                clock.now += seconds

            await calls.run(bob.id, "fetch", call)

        for _ in range(5):
            await answer_after(0.5)
        slow = SLOW_FACTOR * 0.5 + SLOW_SECONDS
        for _ in range(20):
            await answer_after(slow)  # not more than that: it is its own pace
            await answer_after(0.5)
            await answer_after(0.5)
        assert ann.address_book.resting() == []
        await answer_after(slow + 3)
        assert ann.address_book.resting() == [1]

    asyncio.run(play())


def test_what_a_peer_offers_is_a_short_call(tmp_path):
    """It is not given the time that a model may take."""

    async def play() -> None:
        settings = settings_of(deadlines={"call_seconds": 0.5, "fetch_seconds": 600})
        async with network(tmp_path, 2, settings=settings) as (ann, bob):
            await ann.client.say_hello(bob.id)

            async def say_nothing(*_: object) -> None:
                await asyncio.Event().wait()

            bob.service.get_published = say_nothing
            with pytest.raises(Refused) as refused:
                await asyncio.wait_for(ann.client.fetch(bob.id), 120)
            assert refused.value.reason is Reason.LATE

    asyncio.run(play())


class _introduced:  # noqa: N801 — used as a function
    """Peers with clocks of their own that trust and know each other."""

    def __init__(self, *peers: TestPeer) -> None:
        self._peers = peers

    async def __aenter__(self) -> None:
        for peer in self._peers:
            await peer.start()
        for peer in self._peers:
            others = [other for other in self._peers if other is not peer]
            peer.trusts(*others)
            peer.knows(*others)

    async def __aexit__(self, *_: object) -> None:
        for peer in self._peers:
            await peer.stop()
