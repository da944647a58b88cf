"""What was encoded is decoded, however it is cut, with little memory; refusals come early."""

from __future__ import annotations

import hashlib
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payloads import (
    ALL_PARTS,
    MODEL,
    SMALL,
    announced,
    bytes_of,
    compressed,
    decode,
    layout_of,
    model_of,
    payload_bytes,
    put_together,
    taken_apart,
    with_weights,
)

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire import protocol_pb2
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode, to_bfloat16
from coterie.peer.wire.payload_decoder import Decoder, DecoderLimits, Manifest

LARGE = layout_of({"weight": (1000, 1000), "bias": (1000,)})


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
    return layout_of(draw(st.dictionaries(st.text(max_size=8), shapes, min_size=1, max_size=5)))


@st.composite
def messages(draw: st.DrawFn) -> dict[str, np.ndarray]:
    message = {}
    for key in draw(st.sets(st.from_regex(r"[a-z_-]{1,32}", fullmatch=True), max_size=4)):
        shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2))
        dtype = draw(st.sampled_from(["f8", "f4", "i8", "u1"]))
        if key == "peers":
            shape, dtype = [*shape[:1], 32], "u1"
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        content = draw(st.binary(min_size=size, max_size=size))
        message[key] = np.frombuffer(content, dtype).reshape(shape)
    return message


@given(
    layout=layouts(),
    message=messages(),
    parts=st.sets(st.sampled_from(Part), min_size=1).map(frozenset),
    encoding=st.sampled_from(Encoding),
    cuts=st.lists(st.integers(1, 200), min_size=1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_round_trip(layout, message, parts, encoding, cuts, seed):
    model = Model(model_of(layout, seed=seed).vectors, message)
    payload = encode(model, layout, parts, encoding)
    data = bytes_of(payload)
    decoder = Decoder(layout, Manifest(payload.digest, payload.size, encoding, parts))
    position = 0
    while position < len(data):
        for cut in cuts:
            decoder.feed(data[position : position + cut])
            position = min(position + cut, len(data))
            assert decoder.num_fed == position
    decoded = decoder.finish()
    assert decoded.vectors.keys() == parts - {Part.MESSAGE}
    for part, vector in decoded.vectors.items():
        expected = model.vectors[part]
        if encoding.dtype == "BF16":
            expected = (to_bfloat16(expected).astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(vector, expected, strict=True)
    assert list(decoded.message) == (list(message) if Part.MESSAGE in parts else [])
    for key, array in decoded.message.items():
        assert (array.dtype, array.shape) == (message[key].dtype, message[key].shape)
        assert array.tobytes() == message[key].tobytes()


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 2**20])
def test_the_size_of_the_pieces_does_not_matter(encoding, chunk_bytes):
    data = payload_bytes(ALL_PARTS, encoding)
    whole = decode(data, announced(data, ALL_PARTS, encoding), chunk_bytes=len(data))
    model = decode(data, announced(data, ALL_PARTS, encoding), chunk_bytes=chunk_bytes)
    for part, vector in whole.vectors.items():
        np.testing.assert_array_equal(model.vectors[part], vector)


@pytest.mark.parametrize("encoding", Encoding)
def test_a_model_larger_than_all_buffers(encoding):
    model = model_of(LARGE)
    payload = encode(model, LARGE, MODEL, encoding)
    data = bytes_of(payload)
    decoded = decode(data, announced(data, MODEL, encoding), LARGE, chunk_bytes=2**20 - 1)
    tolerance = 0 if encoding.dtype == "F32" else 2**-8
    expected = model.vectors[Part.MODEL]
    np.testing.assert_allclose(decoded.vectors[Part.MODEL], expected, rtol=tolerance, atol=0)


def test_what_was_decoded_can_be_changed():
    data = payload_bytes(ALL_PARTS)
    model = decode(data, announced(data, ALL_PARTS))
    model.vectors[Part.MODEL][0] = 5
    model.message["similarities"][0] = 5


@pytest.mark.parametrize("encoding", Encoding)
def test_memory_is_that_of_one_model(encoding):
    payload = encode(model_of(LARGE), LARGE, MODEL, encoding)
    chunks = [data for _, data in payload.chunks(0)]
    tracemalloc.start()
    try:
        decoder = Decoder(LARGE, Manifest(payload.digest, payload.size, encoding, MODEL))
        for data in chunks:
            decoder.feed(data)
        model = decoder.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.vectors[Part.MODEL].nbytes == LARGE.num_bytes
    # What zstd needs by itself is not seen here; its window is limited. Compressed pieces wait.
    waiting = 2**21 if encoding.is_compressed else 2**20
    assert peak < LARGE.num_bytes + waiting


def test_nothing_is_allocated_before_the_header_is_checked():
    header, tensors = taken_apart(payload_bytes(layout=LARGE))
    header["model/bias"]["shape"] = [1001]
    data = put_together(header, tensors)
    manifest = announced(data)
    tracemalloc.start()
    try:
        decoder = Decoder(LARGE, manifest)
        with pytest.raises(Refused):
            decoder.feed(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**16


@pytest.mark.parametrize("encoding", [Encoding.FLOAT32, Encoding.FLOAT32_ZSTD])
def test_a_refused_model_is_let_go_although_the_decoder_is_kept(encoding):
    data = with_weights([np.nan], LARGE)
    data = compressed(data, level=1) if encoding.is_compressed else data
    manifest = announced(data, MODEL, encoding)
    tracemalloc.start()
    try:
        decoder = Decoder(LARGE, manifest)
        with pytest.raises(Refused) as rejected:
            decoder.feed(data)
        assert rejected.value.reason is Reason.NOT_FINITE
        del rejected
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoder.num_fed == len(data)
    assert kept < 2**18


def test_a_refused_payload_stays_refused():
    data = with_weights([np.inf])
    decoder = Decoder(SMALL, announced(data))
    for refused in (lambda: decoder.feed(data), lambda: decoder.feed(b""), decoder.finish):
        with pytest.raises(Refused) as rejected:
            refused()
        assert rejected.value.reason is Reason.NOT_FINITE


def test_refusals_come_as_early_as_can_be():
    header, tensors = taken_apart(payload_bytes())
    with pytest.raises(Refused):  # the length alone is enough
        Decoder(SMALL, announced(payload_bytes())).feed((2**40).to_bytes(8, "little"))
    wrong = put_together(header | {"more": {}}, b"")
    decoder = Decoder(SMALL, announced(wrong + tensors))
    decoder.feed(wrong[:-1])
    with pytest.raises(Refused):  # the last byte of the header
        decoder.feed(wrong[-1:])
    data = with_weights([0, np.nan])
    decoder = Decoder(SMALL, announced(data))
    start = len(data) - SMALL.num_bytes
    decoder.feed(data[: start + 7])
    with pytest.raises(Refused):  # the weight, when its fourth byte is there
        decoder.feed(data[start + 7 : start + 8])


def test_the_norm_is_limited_for_each_vector():
    data = with_weights([30.0, 40.0, *[0.0] * (SMALL.size - 2)])
    manifest = announced(data)
    assert decode(data, manifest, limits=DecoderLimits(largest_norm=50.1)).vectors
    with pytest.raises(Refused, match=r"norm is above 49\.9") as rejected:
        decode(data, manifest, limits=DecoderLimits(largest_norm=49.9))
    assert rejected.value.reason is Reason.NORM


def test_a_limit_may_be_beyond_what_float32_can_square():
    data = with_weights([1e30])
    limits = DecoderLimits(largest_norm=2e30)
    assert decode(data, announced(data), limits=limits).vectors[Part.MODEL][0] == np.float32(1e30)


def test_honest_models_are_below_the_default_norm():
    image_variances = [255**2 / 4] * 3
    data = with_weights(image_variances, LARGE)
    decode(data, announced(data), LARGE, chunk_bytes=2**20)


def test_a_manifest_is_read_from_its_message():
    message = protocol_pb2.Manifest(
        digest=hashlib.sha256(b"").digest(), size=5, encoding="BFLOAT16_ZSTD", parts=[1, 0]
    )
    manifest = Manifest.read(message)
    assert manifest.encoding is Encoding.BFLOAT16_ZSTD
    assert manifest.parts == {Part.MODEL, Part.MESSAGE}
    assert (manifest.digest, manifest.size) == (message.digest, 5)


@pytest.mark.parametrize("change", [{"encoding": 4}, {"parts": [0, 4]}, {"parts": [0, 0]}])
def test_a_manifest_of_unknown_things_is_refused(change):
    fields = {"digest": bytes(32), "size": 100, "encoding": 0, "parts": [0]} | change
    # Through bytes, as it comes: what is unknown is kept by the library as a number.
    message = protocol_pb2.Manifest.FromString(protocol_pb2.Manifest(**fields).SerializeToString())
    with pytest.raises(Refused) as rejected:
        Manifest.read(message)
    assert rejected.value.reason is Reason.MALFORMED
