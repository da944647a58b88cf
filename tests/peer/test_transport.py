"""Each call between peers as it is meant to be, over real connections."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from network_of_peers import (
    LARGE,
    SMALL,
    eventually,
    introduce,
    make_peer,
    network,
    published,
    raw_call,
    raw_channel,
    refused,
    running,
    settings_of,
    weights,
)
from torch import nn

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import AWAIT, GET_MANIFEST
from coterie.peer.wire.model import Part, Phase
from coterie.peer.wire.payload import Encoding

EVERYTHING = frozenset({Part.MODEL, Part.MESSAGE, Part.LAST_UPDATE})


def test_hello_tells_who_and_what(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            greeting = await ann.client.say_hello(bob.id)
            assert greeting.peer_id == bob.id
            assert greeting.layout == SMALL.fingerprint
            assert greeting.instance == bob.address_book.instance
            assert greeting.encodings == {Encoding.FLOAT32}

    asyncio.run(play())


def test_newcomers_are_found_through_anybody(tmp_path):
    async def play():
        ann, bob, cyd = peers = [make_peer(tmp_path / name) for name in ("ann", "bob", "cyd")]
        async with running(*peers):
            for peer in peers:
                peer.trusts(*(other for other in peers if other is not peer))
            assert await ann.client.identify(bob.address) == bob.id
            assert await cyd.client.identify(bob.address) == bob.id
            assert cyd.address_book.address_of(ann.id) is None
            assert await cyd.client.exchange_addresses(bob.id) == 1
            assert cyd.address_book.address_of(ann.id) == ann.address
            assert (await cyd.client.say_hello(ann.id)).peer_id == ann.id
            assert ann.address_book.address_of(cyd.id) == cyd.address

    asyncio.run(play())


def test_waiting_for_a_phase(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            early = await ann.client.await_phase(bob.id, 1, Phase.PUBLISHED)
            assert (early.round, early.phase, early.published_round) == (0, Phase.ENTERED, None)
            waiting = asyncio.create_task(
                ann.client.await_phase(bob.id, 1, Phase.PUBLISHED, wait_seconds=60)
            )
            await eventually(lambda: bob.context.traffic.served[ann.id, AWAIT.name] == 2)
            await bob.service.publish(published(round=1))
            reached = await waiting
            assert (reached.round, reached.phase) == (1, Phase.PUBLISHED)
            assert reached.published_round == 1
            assert reached.instance == bob.address_book.instance

    asyncio.run(play())


@pytest.mark.parametrize("layout", [SMALL, LARGE], ids=["small", "large"])
def test_a_model_arrives_as_it_was_sent(tmp_path, layout):
    async def play():
        async with network(tmp_path, 2, layout=layout) as (ann, bob):
            offered = published(layout, round=3)
            await bob.service.publish(offered)
            pulled = await ann.client.fetch(bob.id, parts=EVERYTHING)
            for part in (Part.MODEL, Part.LAST_UPDATE):
                np.testing.assert_array_equal(
                    pulled.model.vectors[part], offered.model.vectors[part]
                )
            np.testing.assert_array_equal(
                pulled.model.message["values"], offered.model.message["values"]
            )
            assert (pulled.peer_id, pulled.round, pulled.num_samples) == (bob.id, 3, 24)
            assert pulled.age_seconds >= 0
            assert pulled.num_bytes == 2 * layout.num_bytes + 4 * 8
            assert ann.context.traffic.bytes_received[bob.id] > pulled.num_bytes
            assert ann.context.refused.rows() == bob.context.refused.rows() == []

    asyncio.run(play())


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (("bfloat16", "none"), ("bfloat16", "none"), Encoding.BFLOAT16),
        (("float32", "zstd"), ("float32", "zstd"), Encoding.FLOAT32_ZSTD),
        (("bfloat16", "zstd"), ("bfloat16", "zstd"), Encoding.BFLOAT16_ZSTD),
        (("bfloat16", "zstd"), ("bfloat16", "none"), Encoding.BFLOAT16),
        (("bfloat16", "none"), ("float32", "zstd"), Encoding.FLOAT32),
        (("bfloat16", "zstd"), ("float32", "none"), Encoding.FLOAT32),
    ],
)
def test_the_smallest_encoding_that_both_want(tmp_path, mine, theirs, expected):
    async def play():
        ann, bob = (
            make_peer(
                tmp_path / name, settings=settings_of(precision=given[0], compression=given[1])
            )
            for name, given in (("ann", mine), ("bob", theirs))
        )
        async with running(ann, bob):
            introduce([ann, bob])
            offered = published()
            await bob.service.publish(offered)
            pulled = await ann.client.fetch(bob.id)
            is_exact = bool((weights(pulled.model) == weights(offered.model)).all())
            assert is_exact == (expected.dtype == "F32")
            np.testing.assert_allclose(weights(pulled.model), weights(offered.model), rtol=1 / 128)
            item_bytes = 4 if expected.dtype == "F32" else 2
            if not expected.is_compressed:
                assert pulled.num_bytes == SMALL.size * item_bytes
            else:
                assert pulled.num_bytes == ann.context.traffic.bytes_received[bob.id]

    asyncio.run(play())


def test_a_round_is_waited_for_and_an_old_one_is_gone(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            assert await refused(ann.client.fetch(bob.id, round=1)) is Reason.GONE
            waiting = asyncio.create_task(ann.client.fetch(bob.id, round=1, wait_seconds=60))
            await eventually(lambda: bob.context.traffic.served[ann.id, GET_MANIFEST.name] == 2)
            for number in (1, 2):
                await bob.service.publish(published(round=number, key=number))
            assert (await waiting).round == 1
            assert (await ann.client.fetch(bob.id)).round == 2
            await bob.service.publish(published(round=3))
            assert await refused(ann.client.fetch(bob.id, round=1)) is Reason.GONE
            assert ann.address_book.reachable() == [1], "who no longer has a round is not ill"

    asyncio.run(play())


def test_who_starts_anew_with_another_model_is_noticed(tmp_path):
    async def play():
        other = Layout.of(nn.Linear(6, 4))
        ann, bob = make_peer(tmp_path / "ann"), make_peer(tmp_path / "bob", layout=other)
        async with running(ann, bob):
            introduce([ann, bob])
            assert await refused(ann.client.fetch(bob.id)) is Reason.WRONG_LAYOUT
            await bob.stop()
            again = make_peer(
                tmp_path / "bob",
                identity=bob.context.identity,
                wall_clock=lambda: time.time() + 100,
            )
            await again.start(bob.address)
            await again.service.publish(published())
            ann.knows(again)
            try:
                assert (await ann.client.fetch(bob.id)).peer_id == bob.id
            finally:
                await again.stop()

    asyncio.run(play())


def test_ever_other_parts_are_not_encoded_for_ever(tmp_path):
    async def play():
        settings = settings_of(precision="bfloat16", compression="zstd")
        async with network(tmp_path, 2, settings=settings) as (ann, bob):
            await ann.service.publish(published())
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                for count in range(12):
                    request = wire.ManifestRequest(parts=[[0], [0, 1], [0, 2]][count // 4])
                    request.encoding = count % 4
                    answer = await raw_call(channel, GET_MANIFEST, request.SerializeToString())
                    assert answer[1] == (None if count < 8 else "quota")

    asyncio.run(play())


def test_what_is_not_offered_is_gone(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await bob.service.publish(published())
            parts = frozenset({Part.MODEL, Part.TOTAL_UPDATE})
            assert await refused(ann.client.fetch(bob.id, parts=parts)) is Reason.GONE

    asyncio.run(play())


def test_scores(tmp_path):
    async def play():
        limits = {"scores_per_round": 3}
        async with network(tmp_path, 2, settings=settings_of(limits=limits)) as (ann, bob):
            mine = published()
            score = await ann.client.ask_score(bob.id, mine, "first")
            assert score == weights(mine.model)[0]
            assert np.isnan(await ann.client.ask_score(bob.id, mine, "impossible"))
            unknown = ann.client.ask_score(bob.id, mine, "accuracy of the moon")
            assert await refused(unknown) is Reason.NOT_WANTED
            await ann.client.ask_score(bob.id, mine, "first", round=0)
            assert await refused(ann.client.ask_score(bob.id, mine, "first")) is Reason.QUOTA
            # The quota counts by the judge's own rounds, whatever the asker says.
            claimed = ann.client.ask_score(bob.id, mine, "first", round=77)
            assert await refused(claimed) is Reason.QUOTA
            await bob.service.publish(published(round=1))
            assert await ann.client.ask_score(bob.id, mine, "first") == score
            assert bob.context.refused.of(ann.id) == {Reason.NOT_WANTED: 1, Reason.QUOTA: 2}

    asyncio.run(play())


def test_pushes_are_taken_once(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            mine = published(round=2)
            for _ in range(3):
                await ann.client.push(bob.id, mine)
            (pulled,) = bob.service.received
            assert (pulled.peer_id, pulled.round) == (ann.id, 2)
            np.testing.assert_array_equal(weights(pulled.model), weights(mine.model))
            bob.service.takes = False
            assert await refused(ann.client.push(bob.id, published(key=5))) is Reason.NOT_WANTED
            assert len(bob.service.received) == 1

    asyncio.run(play())


def test_numbers_are_told_to_whoever_listens(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.client.report(bob.id, 0.25, 7)
            assert bob.service.heard == {ann.id: (0.25, 7)}
            for nonsense in (float("nan"), float("inf")):
                assert await refused(ann.client.report(bob.id, nonsense, 7)) is Reason.NOT_FINITE
            bob.service.takes = False
            assert await refused(ann.client.report(bob.id, 0.5, 7)) is Reason.NOT_WANTED
            assert bob.service.heard == {ann.id: (0.25, 7)}

    asyncio.run(play())


def test_goodbye(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            await ann.client.goodbye()
            assert bob.address_book.reachable() == [bob.address_book.number_of(cyd.id)]
            await ann.client.say_hello(bob.id)  # it has thought better of it
            assert len(bob.address_book.reachable()) == 2

    asyncio.run(play())
