"""Models become safetensors files that can be sent from any byte on."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
import zstandard
from payloads import ALL_PARTS, MODEL, SMALL, bytes_of, layout_of, model_of
from safetensors.numpy import load as load_numpy
from safetensors.torch import load as load_torch

from coterie.errors import StrategyError
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode, to_bfloat16


def test_a_payload_is_a_safetensors_file_in_the_order_of_the_layout():
    model = model_of(SMALL)
    payload = encode(model, SMALL, ALL_PARTS, Encoding.FLOAT32)
    read = load_numpy(bytes_of(payload))
    for part, prefix in (
        (Part.MODEL, "model/"),
        (Part.LAST_UPDATE, "last-update/"),
        (Part.TOTAL_UPDATE, "total-update/"),
    ):
        for entry in SMALL.entries:
            array = read.pop(prefix + entry.name)
            expected = model.vectors[part][entry.start : entry.stop].reshape(entry.shape)
            np.testing.assert_array_equal(array, expected, strict=True)
    for key, array in model.message.items():
        np.testing.assert_array_equal(read.pop(f"message/{key}"), array, strict=True)
    assert not read
    flat = b"".join(vector.tobytes() for vector in model.vectors.values())
    assert flat in bytes_of(payload)


def test_bfloat16_is_for_weights_and_not_for_messages():
    model = model_of(SMALL)
    read = load_torch(bytes_of(encode(model, SMALL, ALL_PARTS, Encoding.BFLOAT16)))
    entry = SMALL.entries[0]
    expected = torch.from_numpy(model.vectors[Part.MODEL][: entry.stop].reshape(entry.shape))
    assert torch.equal(read[f"model/{entry.name}"], expected.bfloat16())
    assert read["message/similarities"].dtype == torch.float64


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        (Encoding.FLOAT32_ZSTD, Encoding.FLOAT32),
        (Encoding.BFLOAT16_ZSTD, Encoding.BFLOAT16),
    ],
)
def test_zstd_is_one_frame_around_the_same_file(encoding, raw):
    model = model_of(SMALL)
    data = bytes_of(encode(model, SMALL, ALL_PARTS, encoding))
    told = zstandard.get_frame_parameters(data)
    inner = bytes_of(encode(model, SMALL, ALL_PARTS, raw))
    assert zstandard.ZstdDecompressor().decompress(data) == inner
    assert told.content_size == len(inner)
    assert told.has_checksum


def test_large_models_are_compressed_with_a_window_that_everybody_accepts():
    layout = layout_of({"weight": (3_000_000,)})
    model = Model({Part.MODEL: np.zeros(layout.size, np.float32)})
    payload = encode(model, layout, MODEL, Encoding.FLOAT32_ZSTD)
    assert zstandard.get_frame_parameters(bytes_of(payload)).window_size <= 2**23
    assert payload.size < layout.num_bytes / 100


def test_to_bfloat16_rounds_as_torch_does():
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    ties = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF], np.uint32)
    special = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0], np.uint32)
    vector = np.concatenate([bits, ties, special]).view(np.float32)
    ours = torch.from_numpy(to_bfloat16(vector).view(np.int16)).view(torch.bfloat16)
    torch.testing.assert_close(
        ours, torch.from_numpy(vector).bfloat16(), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 2**20])
def test_chunks_from_every_offset_are_the_rest_of_the_payload(encoding, chunk_bytes):
    payload = encode(model_of(SMALL), SMALL, ALL_PARTS, encoding)
    whole = b"".join(payload.pieces)
    assert payload.size == len(whole)
    assert payload.digest == hashlib.sha256(whole).digest()
    for offset in range(0, payload.size + 1, 1 if chunk_bytes > 7 else 29):
        position = offset
        for told, data in payload.chunks(offset, chunk_bytes):
            assert told == position
            assert 0 < len(data) <= chunk_bytes
            assert data == whole[position : position + len(data)]
            position += len(data)
            assert len(data) == chunk_bytes or position == payload.size
        assert position == payload.size


@pytest.mark.parametrize("offset", [-1, 10**6, 2**63])
def test_chunks_from_outside_the_payload_are_refused_at_once(offset):
    payload = encode(model_of(SMALL), SMALL, MODEL, Encoding.FLOAT32)
    with pytest.raises(Refused) as rejected:
        payload.chunks(offset)
    assert rejected.value.reason is Reason.MALFORMED


def test_weights_are_not_copied():
    model = model_of(SMALL)
    payload = encode(model, SMALL, MODEL, Encoding.FLOAT32)
    served = np.frombuffer(payload.pieces[1], np.float32)
    assert np.shares_memory(served, model.vectors[Part.MODEL])


def test_what_is_counted():
    model = model_of(SMALL)
    message_bytes = sum(array.nbytes for array in model.message.values())
    assert encode(model, SMALL, MODEL, Encoding.FLOAT32).num_tensor_bytes == SMALL.num_bytes
    both = encode(model, SMALL, MODEL | {Part.MESSAGE}, Encoding.BFLOAT16)
    assert both.num_tensor_bytes == SMALL.num_bytes // 2 + message_bytes
    squeezed = encode(model, SMALL, MODEL, Encoding.FLOAT32_ZSTD)
    assert squeezed.num_tensor_bytes == squeezed.size


def test_arrays_in_other_orders_are_written_as_the_format_wants_them():
    values = np.arange(12.0).reshape(3, 4)
    model = Model({}, {"table": values.T.astype(">f8")})
    read = load_numpy(bytes_of(encode(model, SMALL, frozenset({Part.MESSAGE}), Encoding.FLOAT32)))
    np.testing.assert_array_equal(read["message/table"], values.T)


def test_a_part_the_model_does_not_have_is_refused():
    with pytest.raises(Refused, match="without its last-update") as rejected:
        encode(model_of(SMALL, MODEL), SMALL, frozenset({Part.LAST_UPDATE}), Encoding.FLOAT32)
    assert rejected.value.reason is Reason.GONE
    with pytest.raises(Refused) as rejected:
        encode(model_of(SMALL), SMALL, frozenset(), Encoding.FLOAT32)
    assert rejected.value.reason is Reason.MALFORMED


def test_a_vector_of_another_layout_is_a_mistake():
    model = Model({Part.MODEL: np.zeros(SMALL.size + 1, np.float32)})
    with pytest.raises(ValueError, match=r"but the layout needs float32 of shape \(27,\)"):
        encode(model, SMALL, MODEL, Encoding.FLOAT32)


@pytest.mark.parametrize(
    "message",
    [
        {"Peers": np.zeros(3)},
        {"x" * 33: np.zeros(3)},
        {"": np.zeros(3)},
        {"table": np.zeros(3, np.float16)},
        {"table": np.zeros(3, complex)},
        {"table": np.array([{}])},
        {"table": np.array(["text"])},
        {"table": np.array(3.0)},
        {"table": np.zeros((1, 1, 1))},
        {"table": np.zeros(2**17 + 1)},
        {"peers": np.zeros((3, 31), np.uint8)},
        {"peers": np.zeros((3, 32))},
        {key: np.zeros(1) for key in "abcdefghijklmnopq"},
    ],
)
def test_a_message_that_nobody_would_accept_is_the_strategys_error(message):
    model = Model({}, message)
    with pytest.raises(StrategyError, match=r"cannot be sent: .* from its method message"):
        encode(model, SMALL, frozenset({Part.MESSAGE}), Encoding.FLOAT32)
