"""What a hostile but trusted peer sends is refused for the right reason, and counted as its own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import pickle

import numpy as np
from payloads import (
    compressed,
    layout_of,
    model_of,
    payload_bytes,
    put_together,
    taken_apart,
    with_weights,
)
from peer.network_of_peers import introduce, network, published, refused, settings_of
from rogues import CHUNK_BYTES, Offence, rogue

from coterie.peer.refusals import Reason
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.model import Part
from coterie.peer.wire.payload import Encoding

LAYOUT = layout_of({"weight": (1000, 600), "bias": (600,)})
"""2.4 MB, which is more than two chunks."""
WHOLE = payload_bytes(layout=LAYOUT)
ZSTD = Encoding.FLOAT32_ZSTD
GIGABYTES = 10 * 10**9


def altered(change) -> Offence:
    """Return a payload whose header was changed, announced as it is."""
    header, tensors = taken_apart(WHOLE)
    change(header)
    return Offence(put_together(header, tensors))


def announced_as_whole(data: bytes) -> Offence:
    """Return something else than what is announced."""
    return Offence(data, size=len(WHOLE), digest=hashlib.sha256(WHOLE).digest())


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def many_tensors() -> bytes:
    header = {
        f"model/{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        for number in range(10**5)
    }
    _, tensors = taken_apart(WHOLE)
    return put_together(json.dumps(header).encode(), tensors)


def chunk(offset: int, data: bytes) -> bytes:
    return wire.Chunk(offset=offset, data=data).SerializeToString()


OFFENCES: dict[str, tuple[Offence, Reason]] = {
    **{
        f"truncated at {part}/16": (
            announced_as_whole(WHOLE[: len(WHOLE) * part // 16]),
            Reason.TRUNCATED,
        )
        for part in range(16)
    },
    "a flipped bit in the weights": (
        announced_as_whole(flipped(WHOLE, 8 * len(WHOLE) - 30)),
        Reason.WRONG_CHECKSUM,
    ),
    "NaN": (Offence(with_weights([math.nan], LAYOUT)), Reason.NOT_FINITE),
    "infinite": (Offence(with_weights([0.0, -math.inf], LAYOUT)), Reason.NOT_FINITE),
    "1e38": (Offence(with_weights([1e38], LAYOUT)), Reason.NORM),
    "a wrong name": (
        altered(lambda header: header.update({"model/weights": header.pop("model/weight")})),
        Reason.WRONG_NAMES,
    ),
    "a wrong shape": (
        altered(lambda header: header["model/weight"].update(shape=[600, 1000])),
        Reason.WRONG_SHAPE,
    ),
    "a wrong type": (
        altered(lambda header: header["model/weight"].update(dtype="F64")),
        Reason.WRONG_DTYPE,
    ),
    "overlapping tensors": (
        altered(lambda header: header["model/bias"].update(data_offsets=[0, 2400])),
        Reason.WRONG_OFFSETS,
    ),
    "ten gigabytes announced": (Offence(WHOLE, size=GIGABYTES), Reason.TOO_LARGE),
    "a hundred thousand tensors": (Offence(many_tensors()), Reason.TOO_LARGE),
    "more than announced": (announced_as_whole(WHOLE + bytes(8)), Reason.TOO_LARGE),
    "a bomb": (Offence(compressed(bytes(10**9 // 4)), encoding=ZSTD), Reason.BOMB),
    "pickle": (
        Offence(pickle.dumps(np.zeros(LAYOUT.size + 100, np.float32))),
        Reason.TOO_LARGE,
    ),
    "an encoding that nobody reads": (
        Offence(WHOLE, encoding=Encoding.BFLOAT16),
        Reason.MALFORMED,
    ),
    "other parts than asked for": (
        Offence(WHOLE, parts=frozenset({Part.LAST_UPDATE})),
        Reason.MALFORMED,
    ),
    "no digest": (Offence(WHOLE, digest=b"short"), Reason.MALFORMED),
    "chunks out of order": (
        Offence(WHOLE, messages=[chunk(0, WHOLE[:100]), chunk(200, WHOLE[200:300])]),
        Reason.MALFORMED,
    ),
    "a chunk twice": (
        Offence(WHOLE, messages=[chunk(0, WHOLE[:100]), chunk(0, WHOLE[:100])]),
        Reason.MALFORMED,
    ),
    "an empty chunk": (Offence(WHOLE, messages=[chunk(0, b"")]), Reason.MALFORMED),
    "a chunk that is too long": (
        Offence(WHOLE, messages=[chunk(0, WHOLE[: CHUNK_BYTES + 1])]),
        Reason.MALFORMED,
    ),
    "no chunk at all": (Offence(WHOLE, messages=[b"\xff" * 100]), Reason.MALFORMED),
}


def test_offences_are_refused_and_counted(tmp_path):
    settings = settings_of(compression="zstd")

    async def scenario() -> None:
        found = {}
        async with (
            network(tmp_path, 2, layout=LAYOUT, settings=settings) as (victim, honest),
            rogue(tmp_path / "rogue", LAYOUT, lambda _: Offence(WHOLE), compression="zstd") as foe,
        ):
            introduce([victim, honest, foe.peer])
            rejections = victim.context.refused
            await honest.service.publish(published(LAYOUT))
            for name, (offence, _) in OFFENCES.items():
                foe.choice = lambda _, offence=offence: offence
                before = rejections.of(foe.id)
                reason = await refused(victim.client.fetch(foe.id))
                after = rejections.of(foe.id)
                grown = {why for why in after if after[why] > before.get(why, 0)}
                found[name] = reason if grown == {reason} else (reason, grown)
            assert found == {name: reason for name, (_, reason) in OFFENCES.items()}
            foe.choice = lambda _: Offence(WHOLE)
            good = await victim.client.fetch(foe.id)
            assert np.array_equal(
                good.model.vectors[Part.MODEL], model_of(LAYOUT).vectors[Part.MODEL]
            )
            await victim.client.fetch(honest.id)
            assert rejections.of(honest.id) == {}

    asyncio.run(scenario())


def test_no_flipped_bit_gets_through(tmp_path):
    rng = np.random.default_rng(0)
    header_bits = 8 * (len(WHOLE) - LAYOUT.num_bytes)
    bits = rng.integers(header_bits, size=40).tolist()
    bits += rng.integers(header_bits, 8 * len(WHOLE), size=10).tolist()

    async def scenario() -> None:
        async with (
            network(tmp_path, 1, layout=LAYOUT) as (victim,),
            rogue(tmp_path / "rogue", LAYOUT, lambda _: Offence(WHOLE)) as foe,
        ):
            introduce([victim, foe.peer])
            for bit in bits:
                foe.choice = lambda _, bit=bit: announced_as_whole(flipped(WHOLE, bit))
                await refused(victim.client.fetch(foe.id))
            assert sum(victim.context.refused.of(foe.id).values()) == len(bits)

    asyncio.run(scenario())


def test_ten_gigabytes_are_not_even_asked_for(tmp_path):
    async def scenario() -> None:
        async with (
            network(tmp_path, 1, layout=LAYOUT) as (victim,),
            rogue(tmp_path / "rogue", LAYOUT, lambda _: Offence(WHOLE, size=GIGABYTES)) as foe,
        ):
            introduce([victim, foe.peer])
            assert await refused(victim.client.fetch(foe.id)) is Reason.TOO_LARGE
            assert (foe.deeds.num_offered, foe.deeds.num_pulls) == (1, 0)

    asyncio.run(scenario())
