"""Many who join at once, and a coming and going that leaves nothing behind in those who stay."""

from __future__ import annotations

import time
from collections import deque

import pytest
from peer_processes import PeerProcess, eventually, lay_out_swarm

RESOURCES = {"descriptors": 4, "threads": 3, "bytes": 6 * 2**20}
"""How much more of each somebody who stays may hold in the end; one leak per join exceeds it."""


def senders(peer: PeerProcess) -> set[int]:
    """Return from whom models have come."""
    return {row["sender"] for row in peer.table("exchanges") if row["delivered"]}


def test_many_join_at_once(tmp_path, is_full, seen):
    num_first, num_joining = (4, 20) if is_full else (2, 6)
    count = num_first + num_joining
    with lay_out_swarm(tmp_path, count, settings={"every_seconds": 0.5}) as swarm:
        first, joining = swarm.peers[:num_first], swarm.peers[num_first:]
        swarm.start(first)
        for peer in first:
            eventually(lambda peer=peer: peer.status.num_known == num_first - 1, "it is met")
        before = [peer.round for peer in first]
        begun = time.monotonic()
        swarm.start(joining)
        for peer in swarm.peers:
            eventually(lambda peer=peer: peer.status.num_known == count - 1, "everybody is met")
        seconds = time.monotonic() - begun
        for peer in swarm.peers:
            eventually(
                lambda peer=peer: len(senders(peer)) > num_first - 1, "newcomers are fetched from"
            )
        assert all(peer.round > old for peer, old in zip(first, before, strict=True))
        seen.update(
            first=num_first,
            joining=num_joining,
            seconds_until_everybody_knows_everybody=round(seconds, 1),
            slowest_round_seconds=round(max(max(peer.seconds(1)) for peer in first), 2),
        )


def test_a_coming_and_going_leaves_nothing_behind(tmp_path, is_full, seen):
    # In each step as many leave as join; after the first steps everybody has been there once.
    num_staying, num_active, num_idle, num_moving = (4, 16, 10, 2) if is_full else (2, 1, 1, 1)
    first_steps, steps = (7, 20) if is_full else (2, 4)
    count = num_staying + num_active + num_idle
    settings = {"every_seconds": 1.0 if is_full else 0.3}
    with lay_out_swarm(tmp_path, count, settings=settings) as swarm:
        staying = swarm.peers[:num_staying]
        active = deque(swarm.peers[num_staying : num_staying + num_active])
        idle = deque(swarm.peers[num_staying + num_active :])
        swarm.start([*staying, *active])
        num_known = num_staying + num_active - 1

        def step() -> None:
            rounds = [peer.round for peer in staying]
            moving = [active.popleft() for _ in range(num_moving)]
            joining = [idle.popleft() for _ in range(num_moving)]
            swarm.start(joining)
            for peer in moving:
                peer.wait_round(0)
                assert peer.end() == 0
            active.extend(joining)
            idle.extend(moving)
            for peer, before in zip(staying, rounds, strict=True):
                peer.wait_round(before + 1)

        def settled() -> None:
            for peer in (*staying, *active):
                eventually(lambda peer=peer: peer.status.num_known == num_known, "all are met")

        settled()
        for _ in range(first_steps):
            step()
        settled()
        before = [peer.usage() for peer in staying]
        first = min(peer.round for peer in staying)
        for _ in range(steps):
            step()
        settled()
        for peer, used in zip(staying, before, strict=True):
            require_no_more(peer, used)
        after = [peer.usage() for peer in staying]
        seen.update(
            staying=num_staying,
            active=num_active,
            moving_per_step=num_moving,
            steps=steps,
            rounds=min(peer.round for peer in staying) - first,
            before=before,
            after=after,
        )


def require_no_more(peer: PeerProcess, before: dict[str, int]) -> None:
    """Check that a peer holds no more than before, once what is under way has ended."""

    def excess() -> dict[str, int]:
        now = peer.usage()
        return {
            name: now[name] - before[name]
            for name, allowed in RESOURCES.items()
            if now[name] > before[name] + allowed
        }

    try:
        eventually(lambda: not excess(), "all is given back", 20)
    except AssertionError:
        pytest.fail(f"{peer.folder.name} holds more than before: {excess()}")
