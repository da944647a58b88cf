"""Starting and stopping: ports, second processes with the same key, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import threading

import psutil
import pytest
from network_of_peers import (
    eventually,
    make_peer,
    network,
    published,
    refused,
    running,
)

from coterie.errors import ConfigError
from coterie.peer.refusals import Reason


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
            tmp_path / "me", identity=first.context.identity, wall_clock=lambda: 2000.0
        )
        ann = make_peer(tmp_path / "ann")
        async with running(first, second, ann):
            first.trusts(ann)
            ann.trusts(first)
            await eventually(lambda: second.context.trust.is_trusted(ann.id))
            assert await first.client.identify(first.address) is None, "I took myself for another"
            await first.client.identify(ann.address)
            await first.client.say_hello(ann.id)
            await second.client.identify(ann.address)
            await second.client.say_hello(ann.id)
            assert ann.address_book.address_of(first.id) == second.address
            await first.client.exchange_addresses(ann.id)
            await first.client.search_duplicate()
            assert first.address_book.conflict is None
            assert isinstance(second.address_book.conflict, ConfigError)
            assert first.address in str(second.address_book.conflict)
            await second.stop()
            await first.client.say_hello(ann.id)
            assert ann.address_book.address_of(first.id) == first.address

    asyncio.run(play())


def test_an_earlier_start_that_has_ended_is_no_second_process(tmp_path):
    async def play():
        ann = make_peer(tmp_path / "ann")
        earlier = make_peer(tmp_path / "me", wall_clock=lambda: 9e9)
        later = make_peer(tmp_path / "me", identity=earlier.context.identity)
        async with running(ann, later):
            ann.trusts(later)
            later.trusts(ann)
            await earlier.start()
            await earlier.client.identify(ann.address)
            await earlier.client.say_hello(ann.id)
            await earlier.stop()
            await later.client.identify(ann.address)
            await later.client.exchange_addresses(ann.id)
            assert later.address_book.duplicate is not None
            await later.client.search_duplicate()
            assert later.address_book.conflict is None
            await later.client.exchange_addresses(ann.id)
            assert ann.address_book.address_of(later.id) == later.address

    asyncio.run(play())


def test_nothing_is_left_behind(tmp_path):
    async def play(name):
        async with network(tmp_path / name, 4) as (ann, *others):
            await ann.service.publish(published())
            for other in others:
                await other.client.fetch(ann.id)
            hanging = [
                asyncio.create_task(refused(other.client.fetch(ann.id, round=9, wait_seconds=60)))
                for other in others
            ]
            await eventually(lambda: sum(ann.context.traffic.served.values()) >= 4 * len(others))
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
