"""Who is not served, and what is not taken, over real connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import numpy as np
import pytest
from network_of_peers import (
    LARGE,
    introduce,
    make_peer,
    network,
    offered_digest,
    published,
    raw_call,
    raw_channel,
    refused,
    running,
    until_error,
    weights,
)
from torch import nn

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason
from coterie.peer.security.identity import create_identity
from coterie.peer.transport import handlers
from coterie.peer.transport.hello import make_hello
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import (
    ASK_SCORE,
    AWAIT,
    EXCHANGE_ADDRESSES,
    GET_MANIFEST,
    GOODBYE,
    HELLO,
    PULL_MODEL,
    PUSH,
    TELL,
)


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
                    assert stranger.peer_id in ann.context.trust.certificates()
            own = ann.context.identity.certificate_pem
            async with raw_channel(stranger, ann.address, own) as channel:
                code, reason = await raw_call(channel, AWAIT, b"")
                assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, None)
            assert not ann.context.traffic.served

    asyncio.run(play())


def test_plaintext_is_not_understood(tmp_path):
    async def play():
        async with network(tmp_path, 1) as (ann,), grpc.aio.insecure_channel(ann.address) as plain:
            code, _ = await raw_call(plain, AWAIT, b"")
            assert code is grpc.StatusCode.UNAVAILABLE
            assert not ann.context.traffic.served

    asyncio.run(play())


def test_revocation_counts_at_the_next_call_of_an_open_connection(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.client.say_hello(bob.id)
            bob.context.trust.remove(ann.id)
            assert await refused(ann.client.say_hello(bob.id)) is Reason.UNTRUSTED
            assert bob.context.refused.rows() == [("stranger", Reason.UNTRUSTED, 1)]
            assert await refused(bob.client.say_hello(ann.id)) is Reason.UNTRUSTED
            bob.trusts(ann)
            assert (await ann.client.say_hello(bob.id)).peer_id == bob.id

    asyncio.run(play())


def test_revocation_ends_a_transfer_under_way(tmp_path):
    async def play():
        async with network(tmp_path, 2, layout=LARGE) as (ann, bob):
            await ann.service.publish(published(LARGE))
            request = wire.PullRequest(digest=await offered_digest(ann)).SerializeToString()
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                call = channel.unary_stream(PULL_MODEL.path)(request, timeout=60)
                num_chunks = 0
                async for _ in until_error(call):
                    if num_chunks == 0:
                        ann.context.trust.remove(bob.id)
                    num_chunks += 1
                assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
                assert 1 <= num_chunks < 8

    asyncio.run(play())


def test_who_is_newly_trusted_is_served_without_a_restart(tmp_path):
    async def play():
        ann, bob = make_peer(tmp_path / "ann"), make_peer(tmp_path / "bob")
        async with running(ann, bob):
            bob.trusts(ann)
            assert await refused(bob.client.identify(ann.address)) is Reason.UNREACHABLE
            ann.trusts(bob)
            assert await bob.client.identify(ann.address) == ann.id

    asyncio.run(play())


def test_nobody_trusted_can_pose_as_another_when_calling(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                as_another = make_hello(cyd.context)
                answer = await raw_call(channel, HELLO, as_another.SerializeToString())
                assert answer == (grpc.StatusCode.PERMISSION_DENIED, "untrusted")
                mixed = make_hello(bob.context)
                mixed.address.CopyFrom(cyd.address_book.my_record)
                answer = await raw_call(channel, HELLO, mixed.SerializeToString())
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")

    asyncio.run(play())


def test_nobody_trusted_can_pose_as_another_when_called(tmp_path, monkeypatch):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            words_of_another = make_hello(cyd.context)
            monkeypatch.setattr(handlers, "make_hello", lambda context: words_of_another)
            # At an address without a name, the claim is checked against the key of the claimed.
            assert await refused(ann.client.identify(bob.address)) is Reason.UNREACHABLE
            # Where the key is known, another's words do not count.
            assert await refused(ann.client.say_hello(bob.id)) is Reason.UNTRUSTED
            # An address that is said to be another's leads to nobody.
            ann.context.address_book._entries[cyd.id].address = replace(
                ann.context.address_book._entries[cyd.id].address, address=bob.address
            )
            assert await refused(ann.client.say_hello(cyd.id)) is Reason.UNREACHABLE

    asyncio.run(play())


def test_another_version_is_told_so(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                message = make_hello(bob.context)
                message.version = 99
                answer = await raw_call(channel, HELLO, message.SerializeToString())
                assert answer == (grpc.StatusCode.FAILED_PRECONDITION, "wrong-version")
            assert ann.context.refused.of(bob.id) == {Reason.WRONG_VERSION: 1}

    asyncio.run(play())


def test_who_trains_another_model_still_helps_to_find_others(tmp_path):
    async def play():
        ann, cyd = make_peer(tmp_path / "ann"), make_peer(tmp_path / "cyd")
        bob = make_peer(tmp_path / "bob", layout=Layout.of(nn.Linear(6, 4)))
        async with running(ann, bob, cyd):
            introduce([ann, bob])
            introduce([bob, cyd])
            ann.trusts(cyd)
            await bob.service.publish(published(bob.context.layout))
            assert await refused(ann.client.fetch(bob.id)) is Reason.WRONG_LAYOUT
            mine = published()
            assert await refused(ann.client.ask_score(bob.id, mine, "first")) is Reason.WRONG_LAYOUT
            assert await ann.client.exchange_addresses(bob.id) == 1
            assert ann.address_book.address_of(cyd.id) == cyd.address
            assert len(ann.address_book.reachable()) == 2

    asyncio.run(play())


def test_replayed_addresses_and_goodbyes_change_nothing(tmp_path):
    async def play():
        async with network(tmp_path, 3) as (ann, bob, cyd):
            old = cyd.address_book.my_record
            cyd.address_book.announce("127.0.0.1:7399")
            ann.knows(cyd)
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                replay = wire.AddressList(addresses=[old]).SerializeToString()
                code, _ = await raw_call(channel, EXCHANGE_ADDRESSES, replay)
                assert code is grpc.StatusCode.OK
                assert ann.address_book.address_of(cyd.id) == "127.0.0.1:7399"
                # In bob's mouth a goodbye of cyd's is not one.
                theirs = wire.GoodbyeMessage(instance=cyd.address_book.instance).SerializeToString()
                answer = await raw_call(channel, GOODBYE, theirs)
                assert answer == (grpc.StatusCode.FAILED_PRECONDITION, "outdated")
            assert len(ann.address_book.reachable()) == 2
            old_hello = make_hello(cyd.context)
            old_hello.address.CopyFrom(old)
            async with raw_channel(cyd.context.identity, ann.address, own) as channel:
                await raw_call(channel, HELLO, old_hello.SerializeToString())
            assert ann.address_book.address_of(cyd.id) == "127.0.0.1:7399"
            assert ann.context.refused.of(cyd.id) == {Reason.OUTDATED: 1}

    asyncio.run(play())


@pytest.mark.parametrize(
    "method",
    [HELLO, EXCHANGE_ADDRESSES, AWAIT, GET_MANIFEST, ASK_SCORE, PUSH, TELL, GOODBYE],
    ids=lambda method: method.name,
)
def test_garbage_is_malformed(tmp_path, method):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                answer = await raw_call(channel, method, b"\x80\x04\x95garbage")
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")
                code, _ = await raw_call(channel, method, b"\x00" * 2**17)
                assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert ann.context.refused.of(bob.id) == {Reason.MALFORMED: 1}
            await bob.client.say_hello(ann.id)

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
            await ann.service.publish(published())
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                answer = await raw_call(channel, method, request_message.SerializeToString())
                assert answer == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")
            assert ann.context.refused.of(bob.id) == {Reason.MALFORMED: 1}

    asyncio.run(play())


def test_a_transfer_needs_a_deadline_and_an_offset_within(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            await ann.service.publish(published())
            digest = await offered_digest(ann)
            own = ann.context.identity.certificate_pem
            async with raw_channel(bob.context.identity, ann.address, own) as channel:
                for offset, timeout in ((0, None), (0, 1e6), (2**40, 30)):
                    request = wire.PullRequest(digest=digest, offset=offset).SerializeToString()
                    call = channel.unary_stream(PULL_MODEL.path)(request, timeout=timeout)
                    with pytest.raises(grpc.aio.AioRpcError) as error:
                        await call.read()
                    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert ann.context.refused.of(bob.id) == {Reason.MALFORMED: 3}

    asyncio.run(play())


def test_weights_that_are_not_numbers_are_refused_however_they_come(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):
            bad = published()
            weights(bad.model)[3] = np.nan
            await bob.service.publish(bad)
            assert await refused(ann.client.fetch(bob.id)) is Reason.NOT_FINITE
            assert await refused(bob.client.push(ann.id, bad)) is Reason.NOT_FINITE
            assert await refused(bob.client.ask_score(ann.id, bad, "first")) is Reason.NOT_FINITE
            assert ann.context.refused.of(bob.id) == {Reason.NOT_FINITE: 3}
            assert ann.service.received == []

    asyncio.run(play())


@pytest.mark.parametrize("theirs", ["", "cd" * 32])
def test_a_peer_with_another_frozen_part_is_refused_with_a_reason_of_its_own(tmp_path, theirs):
    async def play():
        ann = make_peer(tmp_path / "ann", frozen_digest="ab" * 32)
        bob = make_peer(tmp_path / "bob", frozen_digest=theirs)
        cyd = make_peer(tmp_path / "cyd", frozen_digest="ab" * 32)
        async with running(ann, bob, cyd):
            introduce([ann, bob, cyd])
            for peer in (bob, cyd):
                await peer.service.publish(published())
            assert await refused(ann.client.fetch(bob.id)) is Reason.WRONG_FROZEN_PART
            pushed = ann.client.push(bob.id, published())
            assert await refused(pushed) is Reason.WRONG_FROZEN_PART
            assert (await ann.client.fetch(cyd.id)).peer_id == cyd.id
            assert len(ann.address_book.reachable()) == 2, "another backbone is no failure"

    asyncio.run(play())
