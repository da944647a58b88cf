"""Small models, their payloads, and payloads as somebody hostile would write them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import zstandard

from coterie.models.layout import Layout, LayoutEntry
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, Payload, encode
from coterie.peer.wire.payload_decoder import Decoder, DecoderLimits, Manifest

MODEL = frozenset({Part.MODEL})
ALL_PARTS = frozenset(Part)


def layout_of(shapes: dict[str, tuple[int, ...]]) -> Layout:
    """Return a layout of tensors of these names and shapes."""
    entries, start = [], 0
    for name, shape in shapes.items():
        stop = start + math.prod(shape)
        entries.append(LayoutEntry(name, shape, start, stop, 0, True))
        start = stop
    return Layout(tuple(entries), 1)


SMALL = layout_of({"conv.weight": (4, 3), "conv.bias": (4,), "head.weight": (2, 5), "scale": ()})


def model_of(layout: Layout, parts: Iterable[Part] = ALL_PARTS, seed: int = 0) -> Model:
    """Return random weights, and a message about three peers."""
    rng = np.random.default_rng(seed)
    vectors = {
        part: rng.normal(size=layout.size).astype(np.float32)
        for part in sorted(set(parts) - {Part.MESSAGE})
    }
    message = {
        "peers": rng.integers(0, 256, (3, 32), dtype=np.uint8),
        "similarities": np.array([0.5, np.nan, -1e300]),
        "counts": np.array([[1, -(2**62)]]),
        "short": np.array([np.inf], dtype=np.float32),
    }
    return Model(vectors, message)


def bytes_of(payload: Payload) -> bytes:
    """Return all of a payload."""
    return b"".join(data for _, data in payload.chunks(0))


def payload_bytes(
    parts: frozenset[Part] = MODEL,
    encoding: Encoding = Encoding.FLOAT32,
    layout: Layout = SMALL,
) -> bytes:
    """Return a payload that nothing is wrong with."""
    return bytes_of(encode(model_of(layout), layout, parts, encoding))


def announced(
    data: bytes, parts: frozenset[Part] = MODEL, encoding: Encoding = Encoding.FLOAT32
) -> Manifest:
    """Return the manifest of any bytes, true in size and digest."""
    return Manifest(hashlib.sha256(data).digest(), len(data), encoding, parts)


def decode(
    data: bytes,
    manifest: Manifest,
    layout: Layout = SMALL,
    limits: DecoderLimits | None = None,
    chunk_bytes: int = 64,
) -> Model:
    """Feed all of the bytes."""
    decoder = Decoder(layout, manifest, limits)
    for start in range(0, len(data), chunk_bytes):
        decoder.feed(data[start : start + chunk_bytes])
    return decoder.finish()


def refusal(
    data: bytes,
    parts: frozenset[Part] = MODEL,
    encoding: Encoding = Encoding.FLOAT32,
    layout: Layout = SMALL,
    limits: DecoderLimits | None = None,
) -> Reason:
    """Return why bytes are refused although size and digest are announced as they are."""
    with pytest.raises(Refused) as rejected:
        decode(data, announced(data, parts, encoding), layout, limits)
    assert str(rejected.value).isprintable()
    return rejected.value.reason


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the tensors of a payload that is not compressed."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    """Return what a header says about one tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def put_together(header: object, tensors: bytes) -> bytes:
    """Return a payload with any header: bytes as they are, everything else as JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + tensors


def with_weights(weights: Sequence[float], layout: Layout = SMALL) -> bytes:
    """Return the payload of a model that begins with these weights."""
    model = model_of(layout)
    model.vectors[Part.MODEL][: len(weights)] = weights
    return bytes_of(encode(model, layout, MODEL, Encoding.FLOAT32))


def compressed(data: bytes, **options: Any) -> bytes:
    """Return bytes as one zstd frame."""
    return zstandard.ZstdCompressor(**options).compress(data)
