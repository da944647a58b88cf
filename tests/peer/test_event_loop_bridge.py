"""Numbers and ids: what a message means to somebody who numbers peers otherwise."""

import asyncio
import json

import numpy as np
import pytest

from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.event_loop_bridge import EventLoopBridge
from coterie.peer.security.identity import create_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.service import PeerService
from coterie.peer.transport_settings import DeadlineSettings


@pytest.fixture
def links(tmp_path):
    """Of two peers, a and b, who know c as well and number everybody in another order."""
    identities = []
    for name in "abc":
        (tmp_path / name).mkdir()
        identities.append(create_identity(tmp_path / name, name))
    a, b, c = (identity.peer_id for identity in identities)

    async def make():
        made = []
        for identity, roster in zip(identities[:2], ([c, b], [a, c]), strict=True):
            address_book = AddressBook(identity, TrustStore(tmp_path / identity.name), roster)
            made.append(
                EventLoopBridge(
                    None, address_book, listener(), DeadlineSettings(), synchronous=False
                )
            )
        return made

    return asyncio.run(make())


def listener():
    return PeerService(
        None, answers_scores=False, receives_models=False, receives_reports=True, largest_inbox=1
    )


def test_numbers_are_translated_by_way_of_ids(links):
    a, b = links
    message = {"peers": np.array([1, 2, 0]), "similarities": np.array([0.1, 0.2, 0.3])}
    outside = a.to_ids(message)
    assert outside["peers"].shape == (3, 32)
    assert outside["peers"].dtype == np.uint8
    inside = b.to_local_numbers(outside)
    assert inside["peers"].tolist() == [2, 0, 1]  # c, b and a as b numbers them
    assert inside["peers"].dtype == np.int64
    assert inside["similarities"].tolist() == [0.1, 0.2, 0.3]


def test_about_strangers_nothing_is_told(links):
    a, b = links
    outside = dict(a.to_ids({"peers": np.array([2, 1]), "similarities": np.array([0.1, 0.2])}))
    outside["peers"] = outside["peers"].copy()
    outside["peers"][1] = 7
    outside["other"] = np.arange(5)
    inside = b.to_local_numbers(outside)
    assert inside["peers"].tolist() == [0]
    assert inside["similarities"].tolist() == [0.1]
    assert inside["other"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("peers", [np.array([1, 2]), np.zeros((2, 31), np.uint8)])
def test_what_names_nobody_is_left_out(links, peers):
    inside = links[0].to_local_numbers({"peers": peers, "similarities": np.array([0.1, 0.2])})
    assert inside.get("peers", np.zeros(0)).tolist() == []


def test_a_message_without_peers_stays_as_it_is(links):
    message = {"loss": np.array([1.0])}
    assert links[0].to_ids(message) == message
    assert links[0].to_local_numbers(message) == message


def test_what_was_told_by_a_peer_without_a_number_is_not_heard(tmp_path):
    ann, bob, carol = (create_identity(tmp_path / name, name) for name in ("ann", "bob", "carol"))

    async def play():
        service = listener()
        address_book = AddressBook(ann, TrustStore(tmp_path / "ann"), [bob.peer_id])
        bridge = EventLoopBridge(None, address_book, service, DeadlineSettings(), synchronous=False)
        for peer in (bob, carol):
            await service.store_report(peer.peer_id, 0.5, 3)
        return await asyncio.to_thread(bridge.receive_reports, 4)

    assert asyncio.run(play()) == {1: 0.5}


@pytest.mark.parametrize("synchronous", [True, False])
def test_whoever_is_started_again_hears_what_it_was_told_before(tmp_path, synchronous):
    """As if it had never been away: by ids, since numbers of peers may have changed places."""
    ann, bob, carol = (create_identity(tmp_path / name, name) for name in ("ann", "bob", "carol"))

    def linked(service):
        address_book = AddressBook(ann, TrustStore(tmp_path / "ann"), [bob.peer_id, carol.peer_id])
        return EventLoopBridge(
            None, address_book, service, DeadlineSettings(), synchronous=synchronous
        )

    async def play():
        service = listener()
        first, again = linked(service), linked(listener())
        for peer, value, number in ((bob, 0.1, 3), (carol, 0.2, 3), (carol, 0.3, 4)):
            await service.store_report(peer.peer_id, value, number)
        saved = await asyncio.to_thread(first.save)
        again.restore(json.loads(json.dumps(saved)))  # plain data, as in a checkpoint
        return [
            [await asyncio.to_thread(bridge.receive_reports, number) for number in (4, 5)]
            for bridge in (first, again)
        ]

    uninterrupted, resumed = asyncio.run(play())
    assert resumed == uninterrupted
    assert resumed == ([{1: 0.1, 2: 0.2}, {2: 0.3}] if synchronous else [{1: 0.1, 2: 0.3}, {}])


def test_whoever_is_stopped_waits_no_longer(links):
    """The thread that waits is told, and so is one that begins to wait later."""
    from coterie.errors import Interrupted

    async def play():
        bridge = EventLoopBridge(None, None, None, DeadlineSettings(), synchronous=False)
        waiting = asyncio.create_task(asyncio.to_thread(bridge.sleep, 60))
        while not bridge._waiting:
            await asyncio.sleep(0.001)
        bridge.stop()
        for each in (waiting, asyncio.to_thread(bridge.sleep, 60)):
            with pytest.raises(Interrupted):
                await each

    asyncio.run(asyncio.wait_for(play(), 20))
