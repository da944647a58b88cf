"""Peers that talk to each other over real connections, and others that misbehave."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import numpy as np
import psutil
import pytest
from network_of_peers import (
    LARGE,
    PATIENCE_SECONDS,
    SMALL,
    Proxy,
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
)
from torch import nn

from coterie.errors import ConfigError
from coterie.models.layout import Layout
from coterie.peer.identity import create_identity
from coterie.peer.rejections import Reason, Rejected
from coterie.peer.transport import handlers
from coterie.peer.transport.greetings import hello
from coterie.peer.transport.interface import Model, Part, Phase
from coterie.peer.transport.service import (
    ASK_SCORE,
    AWAIT,
    EXCHANGE_ADDRESSES,
    GET_MANIFEST,
    GOODBYE,
    HELLO,
    PULL_MODEL,
    PUSH,
)
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.payload import Encoding

EVERYTHING = frozenset({Part.MODEL, Part.MESSAGE, Part.LAST_UPDATE})


def weights(model: Model) -> np.ndarray:
    return model.vectors[Part.MODEL]


# Each call as it is meant to be


def test_hello_tells_who_and_what(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            greeting = await ann.client.hello(bob.id)
            assert greeting.peer_id == bob.id
            assert greeting.layout == SMALL.fingerprint
            assert greeting.instance == bob.members.instance
            assert greeting.encodings == {Encoding.FLOAT32}

    asyncio.run(play())


def test_newcomers_are_found_through_anybody(tmp_path):
    async def play():
        ann, bob, cyd = peers = [make_peer(tmp_path / name) for name in ("ann", "bob", "cyd")]
        async with running(*peers):
            for peer in peers:
                peer.trusts(*(other for other in peers if other is not peer))
            assert await ann.client.meet(bob.address) == bob.id
            assert await cyd.client.meet(bob.address) == bob.id
            assert cyd.members.address_of(ann.id) is None
            assert await cyd.client.exchange_addresses(bob.id) == 1
            assert cyd.members.address_of(ann.id) == ann.address
            assert (await cyd.client.hello(ann.id)).peer_id == ann.id
            assert ann.members.address_of(cyd.id) == cyd.address

    asyncio.run(play())


def test_waiting_for_a_phase(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            early = await ann.client.await_phase(bob.id, 1, Phase.PUBLISHED)
            assert (early.round, early.phase, early.published_round) == (0, Phase.ENTERED, None)
            waiting = asyncio.create_task(
                ann.client.await_phase(bob.id, 1, Phase.PUBLISHED, wait_seconds=60)
            )
            await eventually(lambda: bob.station.traffic.served[ann.id, AWAIT.name] == 2)
            await bob.host.publish(published(round=1))
            reached = await waiting
            assert (reached.round, reached.phase) == (1, Phase.PUBLISHED)
            assert reached.published_round == 1
            assert reached.instance == bob.members.instance

    asyncio.run(play())


@pytest.mark.parametrize("layout", [SMALL, LARGE], ids=["small", "large"])
def test_a_model_arrives_as_it_was_sent(tmp_path, layout):
    async def play():
        async with network(tmp_path, 2, layout=layout) as (ann, bob):
            offered = published(layout, round=3)
            await bob.host.publish(offered)
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
            assert ann.station.traffic.bytes_received[bob.id] > pulled.num_bytes
            assert ann.station.rejections.rows() == bob.station.rejections.rows() == []

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
            await bob.host.publish(offered)
            pulled = await ann.client.fetch(bob.id)
            is_exact = bool((weights(pulled.model) == weights(offered.model)).all())
            assert is_exact == (expected.dtype == "F32")
            np.testing.assert_allclose(weights(pulled.model), weights(offered.model), rtol=1 / 128)
            item_bytes = 4 if expected.dtype == "F32" else 2
            if not expected.is_compressed:
                assert pulled.num_bytes == SMALL.size * item_bytes
            else:
                assert pulled.num_bytes == ann.station.traffic.bytes_received[bob.id]

    asyncio.run(play())


def test_a_round_is_waited_for_and_an_old_one_is_gone(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            assert await refused(ann.client.fetch(bob.id, round=1)) is Reason.GONE
            waiting = asyncio.create_task(ann.client.fetch(bob.id, round=1, wait_seconds=60))
            await eventually(lambda: bob.station.traffic.served[ann.id, GET_MANIFEST.name] == 2)
            for number in (1, 2):
                await bob.host.publish(published(round=number, key=number))
            assert (await waiting).round == 1
            assert (await ann.client.fetch(bob.id)).round == 2
            await bob.host.publish(published(round=3))
            assert await refused(ann.client.fetch(bob.id, round=1)) is Reason.GONE
            assert ann.members.known() == [1], "who no longer has a round is not ill"

    asyncio.run(play())


def test_what_is_not_offered_is_gone(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await bob.host.publish(published())
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
            await bob.host.publish(published(round=1))
            assert await ann.client.ask_score(bob.id, mine, "first") == score
            assert bob.station.rejections.of(ann.id) == {Reason.NOT_WANTED: 1, Reason.QUOTA: 2}

    asyncio.run(play())


def test_pushes_are_taken_once(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            mine = published(round=2)
            for _ in range(3):
                await ann.client.push(bob.id, mine)
            (pulled,) = bob.host.received
            assert (pulled.peer_id, pulled.round) == (ann.id, 2)
            np.testing.assert_array_equal(weights(pulled.model), weights(mine.model))
            bob.host.takes = False
            assert await refused(ann.client.push(bob.id, published(key=5))) is Reason.NOT_WANTED
            assert len(bob.host.received) == 1

    asyncio.run(play())


def test_goodbye(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            await ann.client.goodbye()
            assert bob.members.known() == [bob.members.number(cyd.id)]
            await ann.client.hello(bob.id)  # it has thought better of it
            assert len(bob.members.known()) == 2

    asyncio.run(play())


# What breaks


def test_a_transfer_that_was_cut_goes_on_where_it_was(tmp_path):
    async def play():
        async with (
            network(tmp_path, 2, layout=LARGE) as (ann, bob),
            Proxy(bob.address, cut_after=3 * 2**20).running() as proxy,
        ):
            bob.members.announce(proxy.address)
            ann.knows(bob)
            offered = published(LARGE)
            await bob.host.publish(offered)
            pulled = await ann.client.fetch(bob.id)
            assert proxy.num_cuts == 1
            np.testing.assert_array_equal(weights(pulled.model), weights(offered.model))
            assert ann.station.traffic.calls[bob.id, PULL_MODEL.name] == 2
            received = ann.station.traffic.bytes_received[bob.id]
            assert received == pulled.num_bytes + _header_bytes(LARGE)
            assert ann.station.traffic.failures[bob.id, PULL_MODEL.name] == 1
            assert ann.members.known() == [1]

    asyncio.run(play())


def _header_bytes(layout: Layout) -> int:
    from coterie.peer.wire.payload import encode

    model = published(layout).model
    return encode(model, layout, frozenset({Part.MODEL}), Encoding.FLOAT32).size - layout.num_bytes


def test_a_transfer_begins_anew_if_its_version_is_gone_after_a_cut(tmp_path):
    async def play():
        async with (
            network(tmp_path, 3, layout=LARGE) as (ann, bob, cyd),
            Proxy(bob.address, cut_after=3 * 2**20).running() as proxy,
        ):

            async def replace_all_versions():
                for number in range(1, 5):
                    await bob.host.publish(published(LARGE, round=number, key=number))
                    await cyd.client.fetch(bob.id)

            proxy.on_cut = replace_all_versions
            bob.members.announce(proxy.address)
            ann.knows(bob)
            await bob.host.publish(published(LARGE))
            pulled = await ann.client.fetch(bob.id)
            assert proxy.num_cuts == 1
            assert pulled.round == 4
            assert ann.station.refusals.of(bob.id) == {}

    asyncio.run(play())


def test_a_peer_that_is_not_there_is_left_alone_and_found_again(tmp_path):
    async def play():
        settings = settings_of(
            breaker={"failures": 2, "first_rest_seconds": 0.05, "longest_rest_seconds": 0.05}
        )
        async with network(tmp_path, 2, settings=settings) as (ann, bob):
            await ann.client.hello(bob.id)
            await bob.server.stop()
            for _ in range(2):
                assert await refused(ann.client.await_phase(bob.id, 0, Phase.ENTERED)) in (
                    Reason.UNREACHABLE,
                    Reason.LATE,
                )
            assert ann.members.known() == []
            await bob.server.start(bob.address)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while ann.members.known() == []:
                    with suppress(Rejected):  # until its rest is over
                        await ann.client.hello(bob.id)
                    await asyncio.sleep(0.01)

    asyncio.run(play())


def test_a_slow_sender_costs_only_that_fetch(tmp_path):
    async def play():
        limits = {"slow_start_seconds": 0.5, "slowest_bytes_per_second": 2**20}
        async with network(tmp_path, 3, settings=settings_of(limits=limits)) as (ann, bob, cyd):
            sent = 0

            async def trickle(peer_id, request, write):
                nonlocal sent
                payload = bob.station.offers.payload(request.digest)
                for offset, data in payload.chunks(0, 1):
                    await write(wire.Chunk(offset=offset, data=data).SerializeToString())
                    sent += 1
                    await asyncio.sleep(0.05)

            bob.server._handlers.pull_model = trickle
            for peer in (bob, cyd):
                await peer.host.publish(published())
            slow = asyncio.create_task(refused(ann.client.fetch(bob.id)))
            await eventually(lambda: sent > 0)
            assert (await ann.client.fetch(cyd.id)).peer_id == cyd.id
            assert await slow is Reason.LATE
            assert ann.station.refusals.of(bob.id) == {Reason.LATE: 1}
            before = sent
            await eventually(lambda: ann.station.traffic.failures[bob.id, PULL_MODEL.name] == 1)
            assert sent <= before + 1, "it goes on sending to somebody who has given up"

    asyncio.run(play())


def test_a_deadline_ends_a_fetch_whatever_the_other_does(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):

            async def say_nothing(peer_id, request, write):
                await asyncio.Event().wait()

            bob.server._handlers.pull_model = say_nothing
            await bob.host.publish(published())
            assert await refused(ann.client.fetch(bob.id, deadline_seconds=1.0)) is Reason.LATE

    asyncio.run(play())


def test_a_slow_reader_is_cut_off_and_others_are_served(tmp_path):
    async def play():
        limits = {"slow_start_seconds": 0.5, "slowest_bytes_per_second": 10 * 2**20}
        limits |= {"pulls_at_once_in_all": 2}
        settings = settings_of(limits=limits)
        async with network(tmp_path, 3, layout=LARGE, settings=settings) as (ann, bob, cyd):
            await ann.host.publish(published(LARGE))
            digest = await _offered_digest(ann)
            async with raw_channel(
                bob.station.identity, ann.address, ann.station.identity.certificate_pem
            ) as channel:
                request = wire.PullRequest(digest=digest).SerializeToString()
                calls = [
                    channel.unary_stream(PULL_MODEL.path)(request, timeout=60) for _ in range(2)
                ]
                for call in calls:
                    await call.read()  # and nothing more
                assert (await cyd.client.fetch(ann.id)).peer_id == ann.id
                await eventually(lambda: ann.station.rejections.of(bob.id).get(Reason.LATE) == 2)
                for call in calls:
                    call.cancel()

    asyncio.run(play())


async def until_error(call):
    try:
        async for each in call:
            yield each
    except grpc.aio.AioRpcError:
        return


async def _offered_digest(peer) -> bytes:
    newest = peer.host.offered[max(peer.host.offered)]
    offer = peer.station.offers.manifest(newest, frozenset({Part.MODEL}), Encoding.FLOAT32)
    return (await offer).digest


def test_a_thousand_streams_of_one_key(tmp_path):
    async def play():
        async with network(tmp_path, 3, layout=LARGE) as (ann, bob, cyd):
            await ann.host.publish(published(LARGE))
            request = wire.PullRequest(digest=await _offered_digest(ann)).SerializeToString()
            own = ann.station.identity.certificate_pem
            outcomes = []

            async def pull(channel):
                call = channel.unary_stream(PULL_MODEL.path)(request, timeout=60)
                try:
                    async for _ in call:
                        await asyncio.sleep(0.2)
                except grpc.aio.AioRpcError as error:
                    told = dict(error.trailing_metadata() or ())
                    outcomes.append(told.get("coterie-reason", error.code()))

            async with (
                raw_channel(bob.station.identity, ann.address, own) as one,
                raw_channel(bob.station.identity, ann.address, own) as another,
            ):
                flood = [asyncio.create_task(pull(channel)) for channel in [one, another] * 500]
                await eventually(lambda: len(outcomes) > 100)
                assert (await cyd.client.fetch(ann.id)).peer_id == ann.id
                await eventually(lambda: len(outcomes) >= 990)
                for task in flood:
                    task.cancel()
                await asyncio.gather(*flood, return_exceptions=True)
            # Some do not even get as far as to be told: there are too many over one connection.
            assert set(outcomes) <= {"busy", grpc.StatusCode.UNAVAILABLE}
            assert ann.station.rejections.of(bob.id)[Reason.BUSY] == outcomes.count("busy") > 100
            assert Reason.BUSY not in ann.station.rejections.of(cyd.id)

    asyncio.run(play())


def test_who_finds_all_places_taken_waits_and_is_served(tmp_path):
    async def play():
        limits = {"pulls_at_once": 1, "pulls_at_once_in_all": 1}
        async with network(tmp_path, 4, settings=settings_of(limits=limits)) as (ann, *others):
            await ann.host.publish(published())
            fetches = [other.client.fetch(ann.id) for other in others for _ in range(4)]
            assert len(await asyncio.gather(*fetches)) == 12

    asyncio.run(play())


# Who is not to be served


def _strange_identities(tmp_path):
    expired = create_identity(
        tmp_path / "old", "old", valid_days=1, not_before=datetime.now(UTC) - timedelta(days=9)
    )
    return {
        "unknown key": create_identity(tmp_path / "eve", "eve"),
        "expired certificate": expired,
        "no certificate": None,
    }


@pytest.mark.parametrize("who", ["unknown key", "expired certificate", "no certificate"])
@pytest.mark.parametrize("num_trusted", [0, 1])
def test_strangers_do_not_get_a_connection(tmp_path, who, num_trusted):
    async def play():
        ann, bob = make_peer(tmp_path / "ann"), make_peer(tmp_path / "bob")
        async with running(ann, bob):
            stranger = _strange_identities(tmp_path)[who]
            if num_trusted:
                ann.trusts(bob)
                if who == "expired certificate":
                    path = tmp_path / "ann" / "trusted" / f"{stranger.peer_id}.pem"
                    path.write_bytes(stranger.certificate_pem)
                    assert stranger.peer_id in ann.station.trust.certificates()
            own = ann.station.identity.certificate_pem
            async with raw_channel(stranger, ann.address, own) as channel:
                code, reason = await raw_call(channel, AWAIT, b"")
                assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, None)
            assert not ann.station.traffic.served

    asyncio.run(play())


def test_plaintext_is_not_understood(tmp_path):
    async def play():
        async with network(tmp_path, 1) as (ann,), grpc.aio.insecure_channel(ann.address) as plain:
            code, _ = await raw_call(plain, AWAIT, b"")
            assert code is grpc.StatusCode.UNAVAILABLE
            assert not ann.station.traffic.served

    asyncio.run(play())


def test_revocation_counts_at_the_next_call_of_an_open_connection(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.client.hello(bob.id)
            bob.station.trust.remove(ann.id)
            assert await refused(ann.client.hello(bob.id)) is Reason.UNTRUSTED
            assert bob.station.rejections.rows() == [("stranger", Reason.UNTRUSTED, 1)]
            assert await refused(bob.client.hello(ann.id)) is Reason.UNTRUSTED
            bob.trusts(ann)
            assert (await ann.client.hello(bob.id)).peer_id == bob.id

    asyncio.run(play())


def test_revocation_ends_a_transfer_under_way(tmp_path):
    async def play():
        async with network(tmp_path, 2, layout=LARGE) as (ann, bob):
            await ann.host.publish(published(LARGE))
            request = wire.PullRequest(digest=await _offered_digest(ann)).SerializeToString()
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                call = channel.unary_stream(PULL_MODEL.path)(request, timeout=60)
                num_chunks = 0
                async for _ in until_error(call):
                    if num_chunks == 0:
                        ann.station.trust.remove(bob.id)
                    num_chunks += 1
                assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
                assert 1 <= num_chunks < 8

    asyncio.run(play())


def test_who_is_newly_trusted_is_served_without_a_restart(tmp_path):
    async def play():
        ann, bob = make_peer(tmp_path / "ann"), make_peer(tmp_path / "bob")
        async with running(ann, bob):
            bob.trusts(ann)
            assert await refused(bob.client.meet(ann.address)) is Reason.UNREACHABLE
            ann.trusts(bob)
            assert await bob.client.meet(ann.address) == ann.id

    asyncio.run(play())


def test_nobody_trusted_can_pose_as_another_when_calling(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                as_another = hello(cyd.station)
                answer = await raw_call(channel, HELLO, as_another.SerializeToString())
                assert answer == (grpc.StatusCode.PERMISSION_DENIED, "untrusted")
                mixed = hello(bob.station)
                mixed.address.CopyFrom(cyd.members.my_record)
                answer = await raw_call(channel, HELLO, mixed.SerializeToString())
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")

    asyncio.run(play())


def test_nobody_trusted_can_pose_as_another_when_called(tmp_path, monkeypatch):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            words_of_another = hello(cyd.station)
            monkeypatch.setattr(handlers, "hello", lambda station: words_of_another)
            # At an address without a name, the claim is checked against the key of the claimed.
            assert await refused(ann.client.meet(bob.address)) is Reason.UNREACHABLE
            # Where the key is known, another's words do not count.
            assert await refused(ann.client.hello(bob.id)) is Reason.UNTRUSTED
            # An address that is said to be another's leads to nobody.
            ann.station.members._members[cyd.id].address = replace(
                ann.station.members._members[cyd.id].address, address=bob.address
            )
            assert await refused(ann.client.hello(cyd.id)) is Reason.UNREACHABLE

    asyncio.run(play())


def test_another_version_is_told_so(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                message = hello(bob.station)
                message.version = 99
                answer = await raw_call(channel, HELLO, message.SerializeToString())
                assert answer == (grpc.StatusCode.FAILED_PRECONDITION, "wrong-version")
            assert ann.station.rejections.of(bob.id) == {Reason.WRONG_VERSION: 1}

    asyncio.run(play())


def test_who_trains_another_model_still_helps_to_find_others(tmp_path):
    async def play():
        ann, cyd = make_peer(tmp_path / "ann"), make_peer(tmp_path / "cyd")
        bob = make_peer(tmp_path / "bob", layout=Layout.of(nn.Linear(6, 4)))
        async with running(ann, bob, cyd):
            introduce([ann, bob])
            introduce([bob, cyd])
            ann.trusts(cyd)
            await bob.host.publish(published(bob.station.layout))
            assert await refused(ann.client.fetch(bob.id)) is Reason.WRONG_LAYOUT
            mine = published()
            assert await refused(ann.client.ask_score(bob.id, mine, "first")) is Reason.WRONG_LAYOUT
            assert await ann.client.exchange_addresses(bob.id) == 1
            assert ann.members.address_of(cyd.id) == cyd.address
            assert len(ann.members.known()) == 2

    asyncio.run(play())


def test_replayed_addresses_and_goodbyes_change_nothing(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            old = cyd.members.my_record
            cyd.members.announce("127.0.0.1:7399")
            ann.knows(cyd)
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                replay = wire.AddressList(addresses=[old]).SerializeToString()
                code, _ = await raw_call(channel, EXCHANGE_ADDRESSES, replay)
                assert code is grpc.StatusCode.OK
                assert ann.members.address_of(cyd.id) == "127.0.0.1:7399"
                # In bob's mouth a goodbye of cyd's is not one.
                theirs = wire.GoodbyeMessage(instance=cyd.members.instance).SerializeToString()
                answer = await raw_call(channel, GOODBYE, theirs)
                assert answer == (grpc.StatusCode.FAILED_PRECONDITION, "outdated")
            assert len(ann.members.known()) == 2
            old_hello = hello(cyd.station)
            old_hello.address.CopyFrom(old)
            async with raw_channel(cyd.station.identity, ann.address, own) as channel:
                await raw_call(channel, HELLO, old_hello.SerializeToString())
            assert ann.members.address_of(cyd.id) == "127.0.0.1:7399"
            assert ann.station.rejections.of(cyd.id) == {Reason.OUTDATED: 1}

    asyncio.run(play())


@pytest.mark.parametrize(
    "method",
    [HELLO, EXCHANGE_ADDRESSES, AWAIT, GET_MANIFEST, ASK_SCORE, PUSH, GOODBYE],
    ids=lambda method: method.name,
)
def test_garbage_is_malformed(tmp_path, method):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                answer = await raw_call(channel, method, b"\x80\x04\x95garbage")
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")
                code, _ = await raw_call(channel, method, b"\x00" * 2**17)
                assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert ann.station.rejections.of(bob.id) == {Reason.MALFORMED: 1}
            await bob.client.hello(ann.id)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("method", "request_message"),
    [
        (AWAIT, wire.AwaitRequest(phase=77)),
        (GET_MANIFEST, wire.ManifestRequest(parts=[9])),
        (GET_MANIFEST, wire.ManifestRequest(parts=[0], encoding=9)),
        (GET_MANIFEST, wire.ManifestRequest()),
        (ASK_SCORE, wire.ScoreRequest(metric="first", manifest=wire.Manifest(parts=[0, 1]))),
        (ASK_SCORE, wire.ScoreRequest(metric="first", manifest=wire.Manifest(parts=[0]))),
        (PUSH, wire.PushRequest()),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_fields_out_of_range_are_malformed(tmp_path, method, request_message):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.host.publish(published())
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                answer = await raw_call(channel, method, request_message.SerializeToString())
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")
            assert ann.station.rejections.of(bob.id) == {Reason.MALFORMED: 1}

    asyncio.run(play())


def test_a_transfer_needs_a_deadline_and_an_offset_within(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.host.publish(published())
            digest = await _offered_digest(ann)
            own = ann.station.identity.certificate_pem
            async with raw_channel(bob.station.identity, ann.address, own) as channel:
                for offset, timeout in ((0, None), (0, 1e6), (2**40, 30)):
                    request = wire.PullRequest(digest=digest, offset=offset).SerializeToString()
                    call = channel.unary_stream(PULL_MODEL.path)(request, timeout=timeout)
                    with pytest.raises(grpc.aio.AioRpcError) as error:
                        await call.read()
                    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert ann.station.rejections.of(bob.id) == {Reason.MALFORMED: 3}

    asyncio.run(play())


def test_weights_that_are_not_numbers_are_refused_however_they_come(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            bad = published()
            weights(bad.model)[3] = np.nan
            await bob.host.publish(bad)
            assert await refused(ann.client.fetch(bob.id)) is Reason.NOT_FINITE
            assert await refused(bob.client.push(ann.id, bad)) is Reason.NOT_FINITE
            assert await refused(bob.client.ask_score(ann.id, bad, "first")) is Reason.NOT_FINITE
            assert ann.station.rejections.of(bob.id) == {Reason.NOT_FINITE: 3}
            assert ann.host.received == []

    asyncio.run(play())


# Starting and stopping


def test_a_port_in_use_is_an_error_for_people(tmp_path):
    async def play():
        async with network(tmp_path, 1) as (ann,):
            other = make_peer(tmp_path / "other")
            with pytest.raises(ConfigError, match=r"Cannot listen.*in use.*listen"):
                await other.server.start(ann.address)

    asyncio.run(play())


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "192.0.2.1:7300", "", ":::"])
def test_a_listen_address_that_cannot_be_is_an_error_for_people(tmp_path, listen):
    async def play():
        peer = make_peer(tmp_path / "peer")
        with pytest.raises(ConfigError, match="Cannot listen at"):
            await peer.server.start(listen)
        await peer.stop()

    asyncio.run(play())


def test_two_processes_with_one_key(tmp_path):
    async def play():
        first = make_peer(tmp_path / "me", wall_clock=lambda: 1000.0)
        second = make_peer(
            tmp_path / "me", identity=first.station.identity, wall_clock=lambda: 2000.0
        )
        ann = make_peer(tmp_path / "ann")
        async with running(first, second, ann):
            first.trusts(ann)
            ann.trusts(first)
            await eventually(lambda: second.station.trust.is_trusted(ann.id))
            assert await first.client.meet(first.address) is None, "I took myself for another"
            await first.client.meet(ann.address)
            await first.client.hello(ann.id)
            await second.client.meet(ann.address)
            await second.client.hello(ann.id)
            assert ann.members.address_of(first.id) == second.address
            await first.client.exchange_addresses(ann.id)
            await first.client.search_double()
            assert first.members.conflict is None
            assert isinstance(second.members.conflict, ConfigError)
            assert first.address in str(second.members.conflict)
            await second.stop()
            await first.client.hello(ann.id)
            assert ann.members.address_of(first.id) == first.address

    asyncio.run(play())


def test_an_earlier_start_that_has_ended_is_no_second_process(tmp_path):
    async def play():
        ann = make_peer(tmp_path / "ann")
        earlier = make_peer(tmp_path / "me", wall_clock=lambda: 9e9)
        later = make_peer(tmp_path / "me", identity=earlier.station.identity)
        async with running(ann, later):
            ann.trusts(later)
            later.trusts(ann)
            await earlier.start()
            await earlier.client.meet(ann.address)
            await earlier.client.hello(ann.id)
            await earlier.stop()
            await later.client.meet(ann.address)
            await later.client.exchange_addresses(ann.id)
            assert later.members.double is not None
            await later.client.search_double()
            assert later.members.conflict is None
            await later.client.exchange_addresses(ann.id)
            assert ann.members.address_of(later.id) == later.address

    asyncio.run(play())


def test_nothing_is_left_behind(tmp_path):
    async def play(name):
        async with network(tmp_path / name, 4, layout=LARGE) as (ann, *others):
            await ann.host.publish(published(LARGE))
            for other in others:
                await other.client.fetch(ann.id)
            hanging = [
                asyncio.create_task(refused(other.client.fetch(ann.id, round=9, wait_seconds=60)))
                for other in others
            ]
            await eventually(lambda: sum(ann.station.traffic.served.values()) >= 4 * len(others))
            await ann.server.stop()
            assert set(await asyncio.gather(*hanging)) == {Reason.UNREACHABLE}
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play("first"))  # the library keeps some threads and descriptors for good
    process = psutil.Process()
    gc.collect()
    before = (process.num_fds(), threading.active_count(), process.num_threads())
    for number in range(3):
        asyncio.run(play(f"again{number}"))
    gc.collect()
    after = (process.num_fds(), threading.active_count(), process.num_threads())
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1]
    assert after[2] <= before[2] + 2
