"""Peers that send, but hardly: a real server of a trusted key that trickles."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import numpy as np
from peer.network_of_peers import eventually
from peer_processes import PeerProcess, lay_out_swarm, network
from rogues import Offence, rogue

from coterie.models.architectures import architecture
from coterie.models.layout import Layout
from coterie.peer.security.identity import load_identity
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode

DIGITS = Layout.of(architecture("digits-cnn").build(10))
PARTS = frozenset({Part.MODEL, Part.MESSAGE})


def honest_bytes() -> bytes:
    """Return a payload that nothing is wrong with."""
    model = Model({Part.MODEL: np.full(DIGITS.size, 0.01, np.float32)})
    return b"".join(data for _, data in encode(model, DIGITS, PARTS, Encoding.FLOAT32).chunks(0))


def trickle(folder: Path, listen: str):
    """Run a peer that sends a byte per second."""
    offence = Offence(honest_bytes(), chunk_bytes=1, seconds_per_chunk=1.0)
    identity = load_identity(folder)
    return rogue(folder, DIGITS, lambda _: offence, identity=identity, listen=listen)


def test_a_peer_that_sends_a_byte_per_second(tmp_path, slack_seconds, seen):
    fetch_seconds = 2

    async def scenario() -> None:
        with lay_out_swarm(tmp_path, 3, **network(fetch_seconds=fetch_seconds)) as swarm:
            slow, *others = swarm.peers
            async with trickle(slow.folder, slow.address) as trickling:
                swarm.start(others)
                await eventually(lambda: all(_was_late(peer) for peer in others))
                since = [peer.round for peer in others]
                for peer, other, before in zip(others, reversed(others), since, strict=True):
                    await eventually(
                        lambda peer=peer, other=other, before=before: (
                            peer.round > before and peer.has_fetched(other, before)
                        )
                    )
                assert trickling.deeds.num_pulls >= 2
                assert trickling.deeds.num_bytes >= 2
            for peer in others:
                assert peer.end() == 0
                tried = peer.fetches(slow)
                assert tried
                assert not any(row["delivered"] for row in tried)
            slowest = max(max(peer.seconds(1)) for peer in others)
            assert slowest <= fetch_seconds + slack_seconds
            seen.update(slowest_round_seconds=slowest, deadline_seconds=fetch_seconds)

    asyncio.run(scenario())


def _was_late(peer: PeerProcess) -> bool:
    return peer.status.failures.get("late", 0) > 0


def test_asked_to_end_while_it_fetches(tmp_path):
    async def scenario() -> None:
        with lay_out_swarm(tmp_path, 2, **network(fetch_seconds=600)) as swarm:
            slow, peer = swarm.peers
            async with trickle(slow.folder, slow.address) as trickling:
                peer.start()
                await asyncio.wait_for(trickling.deeds.pulling.wait(), 60)
                before = peer.round
                peer.signal(signal.SIGTERM)
                await asyncio.wait_for(trickling.deeds.cut_off.wait(), 60)
                assert await asyncio.to_thread(peer.ended) == 0
            assert peer.status.state == "stopped"
            assert f"Stopped after round {before}, which is saved." in peer.log
            swarm.start()
            await eventually(lambda: peer.round > before and peer.has_fetched(slow))
            assert f"Continuing after round {before}." in peer.log

    asyncio.run(scenario())
