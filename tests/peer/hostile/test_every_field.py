"""Every field of every message at its extremes: the victim lives, and counts what it refuses.

The victim is a whole peer, with its rounds, its records and its network; the liar is a trusted
peer that keeps to the protocol but for one value at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from extremes import ALL_KINDS, FITS, LEFT_OUT, Case, cases_of, fits, kinds_within
from liars import (
    DIGITS,
    METHODS,
    ask_all,
    ask_each,
    attacked,
    fresh_record,
    offer_each,
    payload,
)
from payloads import put_together, taken_apart
from peer.network_of_peers import raw_call, raw_channel
from rogues import Offence, Rogue

from coterie.peer.discovery import discovery
from coterie.peer.refusals import Reason
from coterie.peer.security.identity import create_identity
from coterie.peer.transport.hello import make_hello
from coterie.peer.transport.service_interface import PublishedModel
from coterie.peer.wire import methods
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import Method
from coterie.peer.wire.model import Model, Part, Phase
from coterie.peer.wire.payload import Encoding, encode
from coterie.runtime.run_tables import read_table


def table(name: str, values: Iterable[float], ids: Iterable[bytes] | None = None) -> dict[str, Any]:
    """Return a message about as many peers."""
    numbers = np.array(list(values))
    named = list(ids) if ids is not None else [bytes([n]) * 32 for n in range(len(numbers))]
    return {"peers": np.frombuffer(b"".join(named), "u1").reshape(-1, 32), name: numbers}


def messages(name: str, ids: list[bytes]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Return messages with a table of a strategy, and whether each may be accepted."""
    three = table(name, (0.5, 0.25, 1.0), [*ids, b"x" * 32])
    peers, values = three["peers"], three[name]

    def with_last(value: float) -> dict[str, Any]:
        return {"peers": peers, name: np.array([0.5, 0.5, value])}

    return {
        "as it should be": (three, True),
        "unsorted": ({"peers": peers[::-1], name: values[::-1]}, True),
        "empty": (table(name, ()), True),
        "no message": ({}, True),
        "peers alone": ({"peers": peers}, True),
        "another table": ({"peers": peers, "others": np.array([math.nan] * 3)}, True),
        "zero": (with_last(0.0), True),
        "the smallest": (with_last(5e-324), True),
        "NaN": (with_last(math.nan), False),
        "inf": (with_last(math.inf), False),
        "-inf": (with_last(-math.inf), False),
        "1e308": (with_last(1e308), False),
        "-1e308": (with_last(-1e308), False),
        "a peer twice": ({"peers": peers[[0, 1, 0]], name: values}, False),
        "float32": ({"peers": peers, name: values.astype("f4")}, False),
        "whole": ({"peers": peers, name: np.array([0, 1, 2**63 - 1])}, False),
        "bytes": ({"peers": peers, name: np.zeros(3, "u1")}, False),
        "too short": ({"peers": peers, name: values[:2]}, False),
        "too long": ({"peers": peers, name: np.zeros(9)}, False),
        "two dimensions": ({"peers": peers, name: values[:, None]}, False),
        "about whom": ({name: values}, False),
    }


def changed_headers() -> Iterator[tuple[str, bytes]]:
    """Yield payloads in whose header one thing is at its extreme; none of them may be accepted."""
    header, tensors = taken_apart(payload(table("verdicts", (0.5,))))
    extremes = ("-1", "1", "2147483647", "2147483648", "9223372036854775808", "1" + "0" * 40)
    extremes += ("1e308", "NaN", "Infinity", "true", "null", '"1"', "[]", "{}")
    first = next(iter(header))
    for name in (first, "message/peers", "message/verdicts"):
        for key in ("shape", "data_offsets"):
            for place in range(len(header[name][key])):
                for extreme in extremes:
                    entry = {**header[name], key: list(header[name][key])}
                    entry[key][place] = "HERE"
                    text = json.dumps({**header, name: entry}).replace('"HERE"', extreme)
                    if json.loads(text) != header:
                        yield (
                            f"{name} {key}[{place}] = {extreme}",
                            put_together(text.encode(), tensors),
                        )
        for dtype in ("", "F16", "I32", "F64 ", "\x00", "ü", "F" * 5_000):
            entry = {**header[name], "dtype": dtype}
            yield f"{name} dtype = {dtype[:9]!a}", put_together({**header, name: entry}, tensors)
        for other in ("", "message/", "message/\x1b", "message/漢", "message/" + "x" * 5_000):
            names = {(other if key == name else key): entry for key, entry in header.items()}
            yield f"{name} is called {other[:12]!a}", put_together(names, tensors)


WEIGHTS = {
    **dict.fromkeys((0.0, 5e-45, 1.0, -1.0), True),
    **dict.fromkeys((math.nan, math.inf, -math.inf, 1e20, 3.4e38, -3.4e38), False),
}


def wrongly_treated(refused: dict[Case, bool]) -> list[str]:
    """Return what was refused and need not have been, or the other way round."""
    return [f"{case}: refused {was}" for case, was in refused.items() if was == fits(case)]


def signed_records(foe: Rogue) -> Iterator[tuple[Case, Callable[[Any], Any]]]:
    """Yield the extremes of an address record, and what the liar says with it, signed by itself."""
    cases = cases_of(wire.AddressRecord.DESCRIPTOR)
    # The highest sequence counts: after it nothing is news.
    for case in sorted(cases, key=lambda case: case.field == "sequence"):

        async def said(_: Any, case: Case = case) -> wire.AddressList:
            honest = wire.AddressRecord.FromString(fresh_record(foe).record)
            record = case.put_into(honest).SerializeToString()
            signed = wire.SignedAddress(record=record, signature=foe.identity.sign(record))
            return wire.AddressList(addresses=[signed])

        yield case, said


def a_model(foe: Rogue) -> wire.Manifest:
    """Return what the liar shows or pushes: a good model, another one each time."""
    weights = np.random.default_rng(len(foe.announced)).normal(0, 0.01, DIGITS.size)
    model = Model({Part.MODEL: weights.astype(np.float32)})
    whole = encode(model, DIGITS, frozenset({Part.MODEL}), Encoding.FLOAT32)
    foe.announced[whole.digest] = Offence(b"".join(data for _, data in whole.chunks(0)))
    return wire.Manifest(digest=whole.digest, size=whole.size, num_samples=24, parts=[0])


async def manifest_of(channel: grpc.aio.Channel) -> wire.Manifest:
    """Return what the victim offers now."""
    request = wire.ManifestRequest(parts=[0]).SerializeToString()
    data = await channel.unary_unary(methods.GET_MANIFEST.path)(request, timeout=30)
    return wire.Manifest.FromString(data)


KIN = {"name": "kin"}
DAC = {"name": "dac", "measured_by": "them", "hops": "any", "merge": "fedsim"}
GOSSIP = {"name": "gossip"}
SLOWLY = 0.3
"""Seconds between rounds, where what is offered must still be there a moment later."""


@pytest.fixture(autouse=True)
def _nothing_unexpected(caplog, capfd):
    """No errors are logged, and nothing is printed but what the peer tells."""
    yield
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == []
    assert capfd.readouterr().err == ""


@pytest.fixture(autouse=True)
def _no_calls_besides(monkeypatch):
    """Once they have met, the victim asks only what a test makes it ask."""
    monkeypatch.setattr(discovery, "LATER_SECONDS", 10_000)


ANSWERS = (
    methods.GET_MANIFEST,
    methods.PULL_MODEL,
    methods.AWAIT,
    methods.EXCHANGE_ADDRESSES,
    methods.HELLO,
    methods.ASK_SCORE,
)
NO_FIELDS = (methods.PUSH, methods.TELL, methods.GOODBYE)


def test_everything_is_tried():
    replies = {each.name for each in (*ANSWERS, *NO_FIELDS)}
    assert replies == METHODS.keys()
    assert not any(each.reply.DESCRIPTOR.fields for each in NO_FIELDS)
    within = [
        kinds_within(kind.DESCRIPTOR)
        for method in METHODS.values()
        for kind in (method.request, method.reply)
    ]
    assert set().union(*within) == ALL_KINDS - {"AddressRecord"}, "which has a test of its own"
    cases = [
        case for name in ALL_KINDS for case in cases_of(wire.DESCRIPTOR.message_types_by_name[name])
    ]
    assert {f"{case.kind}.{case.field}" for case in cases} == FITS.keys()


def test_what_it_is_answered(tmp_path):
    async def scenario() -> None:
        async with attacked(tmp_path, KIN, table("verdicts", (0.5,))) as (victim, foe, lies):
            client = victim.client
            asks: dict[Method[Any, Any], Callable[[], Any]] = {
                methods.AWAIT: lambda: client.await_phase(foe.id, 0, Phase.ENTERED),
                methods.EXCHANGE_ADDRESSES: lambda: client.exchange_addresses(foe.id),
                methods.HELLO: lambda: client.say_hello(foe.id),
            }
            for method in ANSWERS[:-1]:
                cases = cases_of(method.reply.DESCRIPTOR)
                refused = await lies.tell(method.name, cases, asks.get(method))
                assert wrongly_treated(refused) == [], method.name

            latest = PublishedModel(
                10**6, 9, time.monotonic(), Model({Part.MODEL: np.zeros(DIGITS.size, "f4")})
            )

            async def ask() -> None:
                await victim.client.ask_score(foe.id, latest, "accuracy")

            refused = await lies.tell("AskScore", cases_of(wire.ScoreReply.DESCRIPTOR), ask)
            accepted = {case.value for case, was in refused.items() if not was}
            assert accepted == {0.0, 5e-324, 1.0, LEFT_OUT}

    asyncio.run(scenario())


def test_what_it_is_asked(tmp_path):
    async def scenario() -> None:
        victim_of = attacked(tmp_path, KIN, table("verdicts", (0.5,)), every_seconds=SLOWLY)
        async with victim_of as (victim, foe, _):
            await victim.until(lambda: victim.round > 3)  # rounds 0 and 1 are offered no more

            async def greeting(_: Any) -> wire.HelloMessage:
                fresh_record(foe)
                return make_hello(foe.peer.context)

            async def addresses(_: Any) -> wire.AddressList:
                return wire.AddressList(addresses=[fresh_record(foe)])

            async def phase(_: Any) -> wire.AwaitRequest:
                return wire.AwaitRequest()

            async def newest(_: Any) -> wire.ManifestRequest:
                return wire.ManifestRequest(parts=[0, 1])

            async def payload_of(channel: grpc.aio.Channel) -> wire.PullRequest:
                return wire.PullRequest(digest=(await manifest_of(channel)).digest)

            async def number(_: Any) -> wire.TellRequest:
                return wire.TellRequest(value=0.5, round=1)

            async def leaving(_: Any) -> wire.GoodbyeMessage:
                return wire.GoodbyeMessage(instance=foe.peer.address_book.instance)

            honest = {
                methods.HELLO: greeting,
                methods.AWAIT: phase,
                methods.GET_MANIFEST: newest,
                methods.PULL_MODEL: payload_of,
                methods.TELL: number,
                methods.GOODBYE: leaving,
                methods.EXCHANGE_ADDRESSES: addresses,
            }
            for method, request in honest.items():
                await ask_each(victim, foe, method, request)
            await ask_all(victim, foe, methods.EXCHANGE_ADDRESSES, signed_records(foe))

    asyncio.run(scenario())


def test_no_number_of_samples_lets_a_model_crowd_out_its_own(tmp_path):
    async def scenario() -> None:
        async with attacked(tmp_path, {"name": "random"}, {}) as (victim, _, lies):
            claims = [Case("Manifest", ("num_samples",), 2**31 - 1)] * 3
            assert set((await lies.tell("GetManifest", claims)).values()) == {False}
            await victim.ends_a_round()
        rows = read_table(victim.process.folder / "run", "arrivals").to_pylist()
        # 10 times the victim's own number, and not 134 million times.
        assert max(row["weight"] for row in rows) == pytest.approx(10 / 11)

    asyncio.run(scenario())


def test_who_has_not_said_hello_is_not_heard(tmp_path):
    """Nor does it end the victim, which has no number for it."""

    async def scenario() -> None:
        async with attacked(tmp_path, KIN, table("verdicts", (0.5,))) as (victim, _, _):
            stranger = create_identity(tmp_path / "stranger", "stranger")
            victim.context.trust.add(stranger.certificate_pem)
            number = wire.TellRequest(value=0.5, round=1).SerializeToString()
            async with raw_channel(stranger, victim.address, victim.roots) as channel:
                assert (await raw_call(channel, methods.TELL, number))[1] == "not-wanted"
            assert victim.context.refused.of(stranger.peer_id) == {Reason.NOT_WANTED: 1}

    asyncio.run(scenario())


def test_models_it_is_shown(tmp_path):
    async def scenario() -> None:
        async with attacked(tmp_path, DAC, table("similarities", (0.5,))) as (victim, foe, lies):
            refused = await lies.tell("AskScore", cases_of(wire.ScoreReply.DESCRIPTOR))
            assert wrongly_treated(refused) == []

            async def score(_: Any) -> wire.ScoreRequest:
                return wire.ScoreRequest(manifest=a_model(foe), metric="loss")

            await ask_each(victim, foe, methods.ASK_SCORE, score)

    asyncio.run(scenario())


def test_models_that_are_pushed_to_it(tmp_path):
    async def scenario() -> None:
        async with attacked(tmp_path, GOSSIP, {}) as (victim, foe, _):

            async def push(_: Any) -> wire.PushRequest:
                return wire.PushRequest(manifest=a_model(foe))

            await ask_each(victim, foe, methods.PUSH, push)
            # Whole and well-formed, but there is no model to hold.
            message = encode(Model({}), DIGITS, frozenset({Part.MESSAGE}), Encoding.FLOAT32)
            foe.announced[message.digest] = Offence(b"".join(d for _, d in message.chunks(0)))
            manifest = a_model(foe)
            manifest.MergeFrom(wire.Manifest(digest=message.digest, size=message.size))
            manifest.parts[:] = [int(Part.MESSAGE)]
            request = wire.PushRequest(manifest=manifest).SerializeToString()
            async with raw_channel(foe.identity, victim.address, victim.roots) as channel:
                told = await raw_call(channel, methods.PUSH, request)
            await victim.ends_a_round()
            assert told[1] == "malformed"

    asyncio.run(scenario())


@pytest.mark.parametrize(("strategy", "name"), [(KIN, "verdicts"), (DAC, "similarities")])
def test_the_payloads_it_is_offered(tmp_path, strategy, name):
    async def scenario() -> None:
        async with attacked(tmp_path, strategy, table(name, (0.5,))) as (victim, foe, lies):
            ids = [bytes.fromhex(victim.id), bytes.fromhex(foe.id)]
            offers = {
                what: (payload(message), is_right)
                for what, (message, is_right) in messages(name, ids).items()
            }
            if strategy is KIN:
                offers |= {what: (data, False) for what, data in changed_headers()}
                offers |= {str(first): (payload({}, first), ok) for first, ok in WEIGHTS.items()}
            refused = await offer_each(lies, foe, offers)
            assert {what for what, was in refused.items() if was == offers[what][1]} == set()

    asyncio.run(scenario())
