"""Networks that break and peers that are slow, silent or too many, over real connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import numpy as np
from network_of_peers import (
    LARGE,
    PATIENCE_SECONDS,
    Proxy,
    eventually,
    network,
    offered_digest,
    published,
    raw_channel,
    refused,
    settings_of,
    weights,
)

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import PULL_MODEL
from coterie.peer.wire.model import Part, Phase
from coterie.peer.wire.payload import Encoding


def test_a_transfer_that_was_cut_goes_on_where_it_was(tmp_path):
    async def play():
        async with (
            network(tmp_path, 2, layout=LARGE) as (ann, bob),
            Proxy(bob.address, cut_after=3 * 2**20).running() as proxy,
        ):
            bob.address_book.announce(proxy.address)
            ann.knows(bob)
            offered = published(LARGE)
            await bob.service.publish(offered)
            pulled = await ann.client.fetch(bob.id)
            assert proxy.num_cuts == 1
            np.testing.assert_array_equal(weights(pulled.model), weights(offered.model))
            assert ann.context.traffic.calls[bob.id, PULL_MODEL.name] == 2
            received = ann.context.traffic.bytes_received[bob.id]
            assert received == pulled.num_bytes + _header_bytes(LARGE)
            assert ann.context.traffic.failures[bob.id, PULL_MODEL.name] == 1
            assert ann.address_book.reachable() == [1]

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
                    await bob.service.publish(published(LARGE, round=number, key=number))
                    await cyd.client.fetch(bob.id)

            proxy.on_cut = replace_all_versions
            bob.address_book.announce(proxy.address)
            ann.knows(bob)
            await bob.service.publish(published(LARGE))
            pulled = await ann.client.fetch(bob.id)
            assert proxy.num_cuts == 1
            assert pulled.round == 4
            assert ann.context.failures.of(bob.id) == {}

    asyncio.run(play())


def test_a_peer_that_is_not_there_is_left_alone_and_found_again(tmp_path):
    async def play():
        settings = settings_of(
            breaker={"failures": 2, "first_rest_seconds": 0.05, "longest_rest_seconds": 0.05}
        )
        async with network(tmp_path, 2, settings=settings) as (ann, bob):
            await ann.client.say_hello(bob.id)
            await bob.server.stop()
            for _ in range(2):
                assert await refused(ann.client.await_phase(bob.id, 0, Phase.ENTERED)) in (
                    Reason.UNREACHABLE,
                    Reason.LATE,
                )
            assert ann.address_book.reachable() == []
            await bob.server.start(bob.address)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while ann.address_book.reachable() == []:
                    with suppress(Refused):  # until its rest is over
                        await ann.client.say_hello(bob.id)
                    await asyncio.sleep(0.01)

    asyncio.run(play())


def test_a_slow_sender_costs_only_that_fetch(tmp_path):
    async def play():
        limits = {"slow_start_seconds": 0.5, "slowest_bytes_per_second": 2**20}
        async with network(tmp_path, 3, settings=settings_of(limits=limits)) as (ann, bob, cyd):
            sent = 0

            async def trickle(peer_id, request, write):
                nonlocal sent
                payload = bob.context.payload_cache.payload(request.digest)
                for offset, data in payload.chunks(0, 1):
                    await write(wire.Chunk(offset=offset, data=data).SerializeToString())
                    sent += 1
                    await asyncio.sleep(0.05)

            bob.server._handlers.pull_model = trickle
            for peer in (bob, cyd):
                await peer.service.publish(published())
            slow = asyncio.create_task(refused(ann.client.fetch(bob.id)))
            await eventually(lambda: sent > 0)
            assert (await ann.client.fetch(cyd.id)).peer_id == cyd.id
            assert await slow is Reason.LATE
            assert ann.context.failures.of(bob.id) == {Reason.LATE: 1}
            before = sent
            await eventually(lambda: ann.context.traffic.failures[bob.id, PULL_MODEL.name] == 1)
            assert sent <= before + 1, "it goes on sending to somebody who has given up"

    asyncio.run(play())


def test_a_deadline_ends_a_fetch_whatever_the_other_does(tmp_path):
    async def play():
        async with network(tmp_path, 2) as (ann, bob):

            async def say_nothing(peer_id, request, write):
                await asyncio.Event().wait()

            bob.server._handlers.pull_model = say_nothing
            await bob.service.publish(published())
            assert await refused(ann.client.fetch(bob.id, deadline_seconds=1.0)) is Reason.LATE

    asyncio.run(play())


def test_a_slow_reader_is_cut_off_and_others_are_served(tmp_path):
    async def play():
        limits = {"slow_start_seconds": 0.5, "slowest_bytes_per_second": 10 * 2**20}
        limits |= {"pulls_at_once_in_all": 2}
        settings = settings_of(limits=limits)
        async with network(tmp_path, 3, layout=LARGE, settings=settings) as (ann, bob, cyd):
            await ann.service.publish(published(LARGE))
            digest = await offered_digest(ann)
            async with raw_channel(
                bob.context.identity, ann.address, ann.context.identity.certificate_pem
            ) as channel:
                request = wire.PullRequest(digest=digest).SerializeToString()
                calls = [
                    channel.unary_stream(PULL_MODEL.path)(request, timeout=60) for _ in range(2)
                ]
                for call in calls:
                    await call.read()  # and nothing more
                assert (await cyd.client.fetch(ann.id)).peer_id == ann.id
                await eventually(lambda: ann.context.refused.of(bob.id).get(Reason.LATE) == 2)
                for call in calls:
                    call.cancel()

    asyncio.run(play())


def test_a_thousand_streams_of_one_key(tmp_path):
    async def play():
        async with network(tmp_path, 3, layout=LARGE) as (ann, bob, cyd):
            await ann.service.publish(published(LARGE))
            request = wire.PullRequest(digest=await offered_digest(ann)).SerializeToString()
            own = ann.context.identity.certificate_pem
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
                raw_channel(bob.context.identity, ann.address, own) as one,
                raw_channel(bob.context.identity, ann.address, own) as another,
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
            assert ann.context.refused.of(bob.id)[Reason.BUSY] >= outcomes.count("busy") > 100
            assert Reason.BUSY not in ann.context.refused.of(cyd.id)

    asyncio.run(play())


def test_who_finds_all_places_taken_waits_and_is_served(tmp_path):
    async def play():
        limits = {"pulls_at_once": 1, "pulls_at_once_in_all": 1}
        async with network(tmp_path, 4, settings=settings_of(limits=limits)) as (ann, *others):
            await ann.service.publish(published())
            fetches = [other.client.fetch(ann.id) for other in others for _ in range(4)]
            assert len(await asyncio.gather(*fetches)) == 12

    asyncio.run(play())
