"""Real peers under attack by one whose key they trust, and by strangers: honest rounds go on."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import pickle
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
from payloads import compressed, put_together, taken_apart
from peer.network_of_peers import eventually, raw_call, raw_channel
from peer_processes import NETWORK, PeerProcess, Swarm, lay_out_swarm
from rogues import Offence, Rogue, rogue

from coterie.models.architectures import architecture
from coterie.models.layout import Layout
from coterie.peer.security.identity import create_identity, load_identity
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import AWAIT, GET_MANIFEST, GOODBYE, HELLO, PULL_MODEL
from coterie.peer.wire.model import Model, Part, Phase
from coterie.peer.wire.payload import Encoding, encode
from coterie.swarm.peer_folders import free_ports

DIGITS = Layout.of(architecture("digits-cnn").build(10))
PARTS = frozenset({Part.MODEL, Part.MESSAGE})
FOE = "peer-0"
ZSTD = Encoding.FLOAT32_ZSTD
PATIENT = {"breaker": NETWORK["breaker"] | {"failures": 10_000, "patience_seconds": 10_000}}
"""So that somebody hostile is asked again and again."""
WIDE = """
from torch import nn


def build():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.ReLU(),
        nn.Linear(3000, 10),
    )
"""


def payload(layout: Layout, first: float = 0.01) -> bytes:
    """Return a payload of the kind that is asked for; only its first weight may be wrong."""
    weights = np.full(layout.size, 0.01, np.float32)
    weights[-1] = first
    encoded = encode(Model({Part.MODEL: weights}), layout, PARTS, Encoding.FLOAT32)
    return b"".join(data for _, data in encoded.chunks(0))


def offences(layout: Layout) -> dict[str, Offence]:
    """Return what is refused, by the reason for which it is."""
    good = payload(layout)
    header, tensors = taken_apart(good)
    name = next(iter(header))
    wrong_shape = {**header, name: {**header[name], "shape": [1]}}
    wrong_places = {**header, name: {**header[name], "data_offsets": [4, 8]}}
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    many = {f"model/{number}": empty for number in range(10**5)}
    return {
        "not-finite": Offence(payload(layout, math.nan)),
        "norm": Offence(payload(layout, 1e38)),
        "truncated": Offence(good[:-9], size=len(good)),
        "wrong-checksum": Offence(good, digest=bytes(32)),
        "wrong-shape": Offence(put_together(wrong_shape, tensors)),
        "wrong-offsets": Offence(put_together(wrong_places, tensors)),
        "wrong-names": Offence(put_together({"model/x": empty, **header}, tensors)),
        "too-large": Offence(good, size=10**10),
        "bomb": Offence(compressed(bytes(max(10**8, 40 * layout.num_bytes))), encoding=ZSTD),
        "malformed": Offence(put_together(b"[" * 99, tensors)),
        "too-large ": Offence(put_together(json.dumps(many).encode(), tensors), size=len(good)),
        "too-large  ": Offence(pickle.dumps(np.zeros(layout.size, np.float32)), size=len(good)),
    }


def counts(peer: PeerProcess, metric: str = "refused") -> dict[tuple[str, str], int]:
    """Return what a running peer has counted, by peer and reason or method."""
    port = peer.settings["metrics_port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^coterie_{metric}_total{{(.*)}} (\S+)$", text, re.MULTILINE)
    rows = {}
    for labels, count in found:
        values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        rows[values["peer"], values.get("reason") or values["method"]] = int(float(count))
    return rows


async def counted(peer: PeerProcess, metric: str = "refused") -> dict[tuple[str, str], int]:
    return await asyncio.to_thread(counts, peer, metric)


def lay_out_victims(folder: Path, count: int, **settings) -> tuple[Swarm, PeerProcess]:
    """Return honest peers with metrics, none of which runs yet, and one whose key is misused."""
    swarm = lay_out_swarm(folder, count + 1, compression="zstd", **settings)
    for peer, port in zip(swarm.peers, free_ports(count + 1), strict=True):
        peer.change(metrics_port=port)
    misused = swarm.peers.pop(0)  # everybody is told its address
    return swarm, misused


def attack(misused: PeerProcess, layout: Layout, choice):
    return rogue(
        misused.folder,
        layout,
        choice,
        identity=load_identity(misused.folder),
        listen=misused.address,
        compression="zstd",
    )


def test_an_aligned_swarm_with_one_hostile_peer(tmp_path):
    kinds = offences(DIGITS)
    turns: dict[str, Iterator[Offence]] = defaultdict(lambda: itertools.cycle(kinds.values()))

    async def scenario() -> None:
        swarm, misused = lay_out_victims(tmp_path, 3, aligned=True, **PATIENT)
        expected = {(FOE, kind.strip()) for kind in kinds}
        with swarm:
            async with attack(misused, DIGITS, lambda who: next(turns[who])):
                swarm.start()
                await eventually(lambda: all(peer.round > len(kinds) for peer in swarm.peers))
                for peer in swarm.peers:
                    assert set(await counted(peer)) == expected
                rounds = [peer.round for peer in swarm.peers]
                assert max(rounds) - min(rounds) <= 1, "they are still aligned"
            for peer in swarm.peers:
                assert await asyncio.to_thread(peer.end) == 0
                rows = peer.table("exchanges")
                ids = peer.ids()
                bad = ids.index(misused.peer_id)
                assert {row["delivered"] for row in rows if row["sender"] == bad} == {False}
                assert {row["delivered"] for row in rows if row["sender"] != bad} == {True}
                senders = {ids[row["sender"]] for row in rows if row["delivered"]}
                assert senders == {other.peer_id for other in swarm.peers} - {peer.peer_id}

    asyncio.run(scenario())


def peak_bytes(peer: PeerProcess) -> int:
    """Return the most memory a process has used since `forget_peak`."""
    text = Path(f"/proc/{peer.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) * 1024


def forget_peak(peer: PeerProcess) -> None:
    Path(f"/proc/{peer.pid}/clear_refs").write_text("5")


def test_an_attack_takes_no_more_memory_than_two_models(tmp_path):
    names: dict[str, object] = {}
    exec(WIDE, names)  # noqa: S102 — what the peers import from their folders
    layout = Layout.of(names["build"]())  # type: ignore[operator]
    kinds = offences(layout)
    # So large that the system gets back what is not used any more, and memory can be told.
    assert layout.num_bytes > 2**25

    async def scenario() -> None:
        fast = {"every_seconds": 0.1, "test_every": 3}
        swarm, misused = lay_out_victims(tmp_path, 1, settings=fast, **PATIENT)
        (victim,) = swarm.peers
        (victim.folder / "wide.py").write_text(WIDE)
        victim.change(model={"function": "wide:build"})
        with swarm:
            nothing = Offence(size=0)
            async with attack(misused, layout, lambda _: nothing) as foe:
                victim.start()
                await eventually(lambda: victim.round > 6)  # it has also tested and saved
                usual = peak_bytes(victim)
                turns = itertools.cycle(kinds.values())
                foe.choice = lambda _: next(turns)
                forget_peak(victim)
                num_offered = foe.deeds.num_offered
                await eventually(lambda: foe.deeds.num_offered > num_offered + len(kinds) + 1)
                expected = {(FOE, kind.strip()) for kind in kinds}
                assert set(await counted(victim)) == expected
                grown = peak_bytes(victim) - usual
                assert grown <= 2 * layout.num_bytes

    asyncio.run(scenario())


async def flood(foe: Rogue, address: str, roots: bytes) -> list[str | None]:
    """Begin a thousand calls at once with one key, over many connections; return what came."""
    request = wire.AwaitRequest(round=10**6, phase=int(Phase.PUBLISHED), wait_milliseconds=3_000)
    pull = wire.PullRequest(digest=bytes(32)).SerializeToString()

    async def stream(channel: grpc.aio.Channel) -> str | None:
        try:
            async for _ in channel.unary_stream(PULL_MODEL.path)(pull, timeout=30):
                pass
        except grpc.aio.AioRpcError as error:
            return dict(error.trailing_metadata() or ()).get("coterie-reason")
        return None

    async def wait(channel: grpc.aio.Channel) -> str | None:
        return (await raw_call(channel, AWAIT, request.SerializeToString()))[1]

    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(raw_channel(foe.identity, address, roots))
            for _ in range(20)
        ]
        calls = [call(channel) for channel in channels for call in (stream, wait) * 25]
        return await asyncio.gather(*calls)


def test_a_thousand_streams_of_one_key_while_others_go_on(tmp_path):
    async def scenario() -> None:
        swarm, misused = lay_out_victims(tmp_path, 2)
        good = Offence(payload(DIGITS))
        with swarm:
            async with attack(misused, DIGITS, lambda _: good) as foe:
                swarm.start()
                victim, other = swarm.peers
                await eventually(lambda: victim.round > 0 and victim.has_fetched(other))
                held = victim.usage()
                before = [peer.round for peer in swarm.peers]
                roots = load_identity(victim.folder).certificate_pem
                told = await flood(foe, victim.address, roots)
                assert len(told) == 1000
                assert told.count("busy") > 100
                refused = await counted(victim)
                assert refused[FOE, "busy"] >= told.count("busy")
                assert {who for who, _ in refused} == {FOE}
                for peer, last in zip(swarm.peers, before, strict=True):
                    friend = other if peer is victim else victim
                    await eventually(
                        lambda peer=peer, friend=friend, last=last: (
                            peer.round > last + 1 and peer.has_fetched(friend, last + 1)
                        )
                    )
                await eventually(lambda: victim.usage()["descriptors"] <= held["descriptors"] + 4)
                assert victim.usage()["bytes"] < held["bytes"] + 2**26

    asyncio.run(scenario())


def test_strangers_and_replays(tmp_path):
    """Nobody without a trusted key is heard; what a trusted one says twice changes nothing."""

    async def scenario() -> None:
        swarm, misused = lay_out_victims(tmp_path, 1, limits={"scores_per_round": 3})
        (victim,) = swarm.peers
        long_ago = datetime.now(UTC) - timedelta(days=40)
        expired = create_identity(tmp_path / "old", "old", valid_days=10, not_before=long_ago)
        unknown = create_identity(tmp_path / "unknown", "unknown")
        trusted = victim.folder / "trusted" / f"{expired.peer_id}.pem"
        trusted.write_bytes(expired.certificate_pem)
        roots = load_identity(victim.folder).certificate_pem
        good = Offence(payload(DIGITS))
        hello = wire.HelloMessage(version=1).SerializeToString()
        with swarm:
            async with attack(misused, DIGITS, lambda _: good) as foe:
                swarm.start()
                await eventually(lambda: victim.round > 0 and victim.status.num_known == 1)
                for who in (None, expired, unknown):
                    async with raw_channel(who, victim.address, roots) as channel:
                        code, reason = await raw_call(channel, HELLO, hello)
                        assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, None)
                async with grpc.aio.insecure_channel(victim.address) as channel:
                    code, reason = await raw_call(channel, HELLO, hello)
                    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, None)
                assert await counted(victim, "served") == {}

                old_record = foe.peer.address_book.my_record
                foe.peer.address_book.announce(foe.peer.address)
                await foe.peer.client.say_hello(victim.peer_id)
                async with raw_channel(foe.identity, victim.address, roots) as channel:
                    replayed = wire.HelloMessage(
                        version=1,
                        peer_id=bytes.fromhex(foe.id),
                        layout=bytes.fromhex(DIGITS.fingerprint),
                        instance=foe.peer.address_book.instance,
                        address=old_record,
                    )
                    code, _ = await raw_call(channel, HELLO, replayed.SerializeToString())
                    assert code is grpc.StatusCode.OK
                    goodbye = wire.GoodbyeMessage(instance=bytes(16)).SerializeToString()
                    told = [(await raw_call(channel, GOODBYE, goodbye))[1] for _ in range(2)]
                    assert told == ["outdated", "outdated"]
                    garbage = await raw_call(channel, GET_MANIFEST, b"\xff" * 9)
                    assert garbage[1] == "malformed"
                refused = await counted(victim)
                assert refused[FOE, "outdated"] == 3
                assert refused[FOE, "malformed"] == 1
                since = victim.round
                await eventually(lambda: victim.round > since + 1)
                assert victim.status.num_known == 1, "it did not say goodbye itself"

    asyncio.run(scenario())
