"""A whole peer that is lied to, and a trusted peer that lies in one field at a time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from extremes import Case, cases_of, fits
from google.protobuf.message import Message
from payloads import put_together, taken_apart
from peer.network_of_peers import eventually, raw_call, raw_channel
from peer_processes import PeerProcess, lay_out_swarm
from rogues import Offence, Rogue, rogue

from coterie.errors import Interrupted
from coterie.models.architectures import architecture
from coterie.models.layout import Layout
from coterie.peer.peer_config import read_peer_config
from coterie.peer.process import RunningPeer
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import load_identity
from coterie.peer.stop_request import PeerStopRequest
from coterie.peer.transport.peer_client import PeerClient
from coterie.peer.transport_settings import LimitSettings
from coterie.peer.wire import methods
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import Method
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode
from coterie.runtime.run_tables import SCHEMAS, read_table

DIGITS = Layout.of(architecture("digits-cnn").build(10))
PARTS = frozenset({Part.MODEL, Part.MESSAGE})
METHODS = {each.name: each for each in vars(methods).values() if isinstance(each, Method)}
MANY = 10**6
"""Of what is limited otherwise: here it is about values, not about how often."""
LIMITS = {
    "scores_per_round": MANY,
    "pushes_per_round": MANY,
    "calls_per_minute": MANY,
    "samples_ratio": LimitSettings().samples_ratio,  # a swarm sets none
}
BREAKER = {
    "failures": MANY,
    "first_rest_seconds": 0.2,
    "longest_rest_seconds": 1,
    "patience_seconds": MANY,  # on a busy machine, what is refused takes long
}


@dataclass
class Lies:
    """What the liar's server says instead of the truth, a case at a time."""

    victim: Victim
    cases: dict[str, Iterator[Case]] = field(default_factory=dict)
    """By the name of the call; where there are none, or none any more, it tells the truth."""
    told: dict[str, list[tuple[Case | None, int]]] = field(default_factory=dict)
    """What was said instead, and how much the victim had refused before."""

    def instead(self, method: str, honest: Message) -> Message:
        """Return what is said instead of an honest answer."""
        if method not in self.cases:
            return honest
        case = next(self.cases[method], None)
        self.told[method].append((case, self.victim.num_refused))
        return honest if case is None else case.put_into(honest)

    async def tell(self, method: str, cases: Iterable[Case], ask: Any = None) -> dict[Case, bool]:
        """Say all cases in turn, to whoever asks next; return which of them were refused."""
        self.told[method] = []
        given = list(cases)
        self.cases[method] = iter(given)
        # One answer more, so that what the last one led to has happened.
        while ask is not None and len(self.told[method]) <= len(given):
            with suppress(Refused):
                await ask()
        await self.victim.until(lambda: len(self.told[method]) > len(given))
        del self.cases[method]
        counts = [count for _, count in self.told[method]]
        return {case: counts[place + 1] > counts[place] for place, case in enumerate(given)}


@dataclass
class Victim:
    """A whole peer on this event loop, and the one it trusts too much."""

    process: PeerProcess
    running_peer: RunningPeer
    foe: str
    roots: bytes
    client: PeerClient
    running: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.process.peer_id

    @property
    def address(self) -> str:
        return self.process.address

    @property
    def context(self) -> Any:
        return self.running_peer._context

    @property
    def round(self) -> int:
        return int(self.running_peer._peer_run.status.round)

    @property
    def num_refused(self) -> int:
        """How much it has refused of the liar, for whatever reason."""
        return sum(self.context.refused.of(self.foe).values())

    async def ends_a_round(self) -> None:
        before = self.round
        await self.until(lambda: self.round > before + 1)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is bound to happen as long as the victim lives."""
        running = self.running
        assert running is not None
        await eventually(lambda: running.done() or condition())
        if running.done():
            running.result()
            raise AssertionError("the victim has ended")


@asynccontextmanager
async def attacked(
    folder: Path,
    strategy: dict[str, Any],
    message: dict[str, Any],
    every_seconds: float = 0.0,
) -> AsyncIterator[tuple[Victim, Rogue, Lies]]:
    """Run a victim and a liar, who offers a good model; in the end the victim must be well."""
    swarm = lay_out_swarm(folder, 2, limits=LIMITS, breaker=BREAKER)
    misused, process = swarm.peers
    process.change(strategy=strategy, every_seconds=every_seconds, watch={"beliefs": 1000})
    running_peer = RunningPeer(
        process.folder,
        read_peer_config(process.folder),
        load_identity(process.folder),
        print,
        PeerStopRequest(),
    )
    client = PeerClient(running_peer._context)
    roots = load_identity(process.folder).certificate_pem
    victim = Victim(process, running_peer, misused.peer_id, roots, client)
    good = Offence(payload(message))
    lies = Lies(victim)
    async with rogue(
        misused.folder,
        DIGITS,
        lambda _: good,
        identity=load_identity(misused.folder),
        listen=misused.address,
        prepare=lambda foe: _lie(foe, lies),
    ) as foe:
        foe.peer.context.trust.add(roots)
        victim.running = running = asyncio.create_task(running_peer.run())
        try:
            await victim.until(lambda: victim.round > 0 and foe.id in _known(victim))
            await foe.peer.client.identify(victim.address)
            yield victim, foe, lies
            await victim.ends_a_round()
        finally:
            running_peer._stop.set()
            with suppress(Interrupted):
                await running
            await client.close()
    require_well(victim)


def fresh_record(foe: Rogue) -> wire.SignedAddress:
    """Return the address of the liar, newer than any that was told before."""
    foe.peer.address_book.announce(foe.peer.address)
    return foe.peer.address_book.my_record


def _known(victim: Victim) -> list[str]:
    address_book = victim.context.address_book
    return [address_book.id_of(number) for number in address_book.reachable()]


def _lie(foe: Rogue, lies: Lies) -> None:
    """Change the liar's answers on their way out."""
    server = foe.peer.server
    handlers: Any = server._handlers
    answer_once = server._answer_once

    async def lie(method: Method[Any, Any], answer: Any, data: bytes, call: Any) -> bytes:
        if method.name in lies.cases and method in (methods.HELLO, methods.EXCHANGE_ADDRESSES):
            fresh_record(foe)
        honest = await answer_once(method, answer, data, call)
        return lies.instead(method.name, method.reply.FromString(honest)).SerializeToString()

    async def lie_in_pieces(peer_id: str, message: wire.PullRequest, write: Any) -> None:
        async def write_other(data: bytes) -> None:
            honest = wire.Chunk.FromString(data)
            await write(lies.instead("PullModel", honest).SerializeToString())

        await pull_model(peer_id, message, write_other)

    async def score(*_: Any) -> wire.ScoreReply:
        return wire.ScoreReply(value=0.5)

    handlers.ask_score = score
    pull_model, handlers.pull_model = handlers.pull_model, lie_in_pieces
    server._answer_once = lie  # type: ignore[method-assign]


def require_well(victim: Victim) -> None:
    """What it has recorded can be read, and nothing in it is absurd."""
    status = victim.process.status
    assert status.state == "running"
    assert sum(status.refused.values()) >= victim.num_refused
    for name in SCHEMAS:
        rows = read_table(victim.process.folder / "run", name).to_pylist()
        assert all(0 <= row["round"] <= status.round for row in rows)
        if name == "metrics":
            assert [row["round"] for row in rows] == list(range(status.round + 1))
            losses = [row["validation_loss_trained"] for row in rows]
            assert all(math.isfinite(loss) for loss in losses)
    json.loads((victim.process.folder / "status.json").read_text())


def payload(message: dict[str, Any], first: float = 0.01) -> bytes:
    """Return a good payload, with any message."""
    weights = np.full(DIGITS.size, 0.01, np.float32)
    weights[0] = first
    whole = encode(Model({Part.MODEL: weights}), DIGITS, PARTS, Encoding.FLOAT32)
    header, tensors = taken_apart(b"".join(data for _, data in whole.chunks(0)))
    for name, array in message.items():
        dtype = {"f8": "F64", "f4": "F32", "i8": "I64", "u1": "U8"}[array.dtype.str[1:]]
        start = len(tensors)
        tensors += array.tobytes()
        header[f"message/{name}"] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [start, len(tensors)],
        }
    return put_together(header, tensors)


async def offer_each(
    lies: Lies, foe: Rogue, offers: dict[str, tuple[bytes, bool]]
) -> dict[str, bool]:
    """Let the victim fetch each payload once, in its rounds; return which ones it refused."""
    waiting = iter(offers.items())
    seen: list[tuple[str, int]] = []
    good = foe.choice

    def choose(who: str) -> Offence:
        name, offer = next(waiting, ("", None))
        seen.append((name, lies.victim.num_refused))
        return good(who) if offer is None else Offence(offer[0])

    foe.choice = choose
    await lies.victim.until(lambda: len(seen) > len(offers))
    foe.choice = good
    return {
        name: seen[place + 1][1] > count for place, (name, count) in enumerate(seen[: len(offers)])
    }


async def ask_each(
    victim: Victim, foe: Rogue, method: Method[Any, Any], honest: Callable[[Any], Any]
) -> None:
    """Ask the victim with every field of a request at its extremes, as the liar."""
    await ask_all(
        victim,
        foe,
        method,
        [(case, honest) for case in cases_of(method.request.DESCRIPTOR)],
    )


async def ask_all(
    victim: Victim,
    foe: Rogue,
    method: Method[Any, Any],
    cases: Iterable[tuple[Case, Callable[[Any], Any]]],
) -> None:
    """Ask the victim; what does not fit must be refused and counted, all else be answered."""
    wrong = []
    async with raw_channel(foe.identity, victim.address, victim.roots) as channel:
        for case, honest in cases:
            is_right = fits(case)
            code = grpc.StatusCode.NOT_FOUND
            # What fits may be gone when it is asked for: a round ends every moment.
            while code is grpc.StatusCode.NOT_FOUND:
                made = await honest(channel)
                request = made if case.kind == "AddressRecord" else case.put_into(made)
                before = victim.num_refused
                code, reason = await ask_once(channel, method, request.SerializeToString())
                if not is_right:
                    break
            is_counted = victim.num_refused > before
            is_refused = reason in {each.value for each in Reason} and is_counted
            if (code is grpc.StatusCode.OK) != is_right or is_refused == is_right:
                wrong.append((str(case), code.name, reason, is_counted))
    assert wrong == [], method.name


async def ask_once(
    channel: grpc.aio.Channel, method: Method[Any, Any], data: bytes
) -> tuple[grpc.StatusCode, str | None]:
    if method is not methods.PULL_MODEL:
        return await raw_call(channel, method, data)
    try:
        async for _ in channel.unary_stream(method.path)(data, timeout=30):
            pass
    except grpc.aio.AioRpcError as error:
        return error.code(), dict(error.trailing_metadata() or ()).get("coterie-reason")
    return grpc.StatusCode.OK, None
