"""Numbers and ids: what a message means to somebody who numbers peers otherwise."""

import asyncio

import numpy as np
import pytest

from coterie.peer.host import PeerHost
from coterie.peer.identity import create_identity
from coterie.peer.link import Link
from coterie.peer.transport.members import Members
from coterie.peer.transport.settings import DeadlineSettings
from coterie.peer.trust import TrustStore


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
            members = Members(identity, TrustStore(tmp_path / identity.name), roster)
            host = PeerHost(
                None, answers_scores=False, takes_pushes=False, listens=False, largest_inbox=1
            )
            made.append(Link(None, members, host, DeadlineSettings(), synchronous=False))
        return made

    return asyncio.run(make())


def test_numbers_are_translated_by_way_of_ids(links):
    a, b = links
    message = {"peers": np.array([1, 2, 0]), "similarities": np.array([0.1, 0.2, 0.3])}
    outside = a.in_ids(message)
    assert outside["peers"].shape == (3, 32)
    assert outside["peers"].dtype == np.uint8
    inside = b.in_my_numbers(outside)
    assert inside["peers"].tolist() == [2, 0, 1]  # c, b and a as b numbers them
    assert inside["peers"].dtype == np.int64
    assert inside["similarities"].tolist() == [0.1, 0.2, 0.3]


def test_about_strangers_nothing_is_told(links):
    a, b = links
    outside = dict(a.in_ids({"peers": np.array([2, 1]), "similarities": np.array([0.1, 0.2])}))
    outside["peers"] = outside["peers"].copy()
    outside["peers"][1] = 7
    outside["other"] = np.arange(5)
    inside = b.in_my_numbers(outside)
    assert inside["peers"].tolist() == [0]
    assert inside["similarities"].tolist() == [0.1]
    assert inside["other"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("peers", [np.array([1, 2]), np.zeros((2, 31), np.uint8)])
def test_what_names_nobody_is_left_out(links, peers):
    inside = links[0].in_my_numbers({"peers": peers, "similarities": np.array([0.1, 0.2])})
    assert inside.get("peers", np.zeros(0)).tolist() == []


def test_a_message_without_peers_stays_as_it_is(links):
    message = {"loss": np.array([1.0])}
    assert links[0].in_ids(message) == message
    assert links[0].in_my_numbers(message) == message


def test_whoever_is_stopped_waits_no_longer(links):
    """The thread that waits is told, and so is one that begins to wait later."""
    from coterie.errors import Interrupted

    async def play():
        link = Link(None, None, None, DeadlineSettings(), synchronous=False)
        waiting = asyncio.create_task(asyncio.to_thread(link.rest, 60))
        while not link._waiting:
            await asyncio.sleep(0.001)
        link.stop()
        for each in (waiting, asyncio.to_thread(link.rest, 60)):
            with pytest.raises(Interrupted):
                await each

    asyncio.run(asyncio.wait_for(play(), 20))
