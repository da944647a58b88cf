"""Whatever a hostile peer sends is refused for the right reason, also with a true digest of it."""

from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pytest
from payloads import (
    ALL_PARTS,
    MODEL,
    SMALL,
    announced,
    compressed,
    decode,
    entry,
    payload_bytes,
    put_together,
    refusal,
    taken_apart,
    with_weights,
)

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Part
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import Decoder, Manifest

MESSAGE = frozenset({Part.MESSAGE})
WITH_MESSAGE = MODEL | MESSAGE
PLAIN = [Encoding.FLOAT32, Encoding.BFLOAT16]
NESTED = json.loads("[" * 300 + "]" * 300)


def altered(change):
    """Return a payload whose header was changed in place."""
    header, tensors = taken_apart(payload_bytes())
    change(header)
    return put_together(header, tensors)


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("sixteenth", range(16))
def test_truncated(encoding, sixteenth):
    data = payload_bytes(encoding=encoding)
    short = data[: len(data) * sixteenth // 16]
    assert refusal(short, encoding=encoding) is Reason.TRUNCATED
    with pytest.raises(Refused) as rejected:
        decode(short, announced(data, encoding=encoding))
    assert rejected.value.reason is Reason.TRUNCATED


@pytest.mark.parametrize("encoding", Encoding)
def test_no_flipped_bit_gets_through(encoding):
    data = payload_bytes(ALL_PARTS, encoding)
    manifest = announced(data, ALL_PARTS, encoding)
    reasons = set()
    for position in range(0, 8 * len(data), 7):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(Refused) as rejected:
            decode(bytes(flipped), manifest, chunk_bytes=2**20)
        reasons.add(rejected.value.reason)
    assert Reason.MALFORMED in reasons
    assert encoding.is_compressed or Reason.WRONG_CHECKSUM in reasons


@pytest.mark.parametrize("encoding", Encoding)
def test_bytes_of_another_model_are_not_those_announced(encoding):
    data = payload_bytes(encoding=encoding)
    other = Manifest(bytes(32), len(data), encoding, MODEL)
    with pytest.raises(Refused) as rejected:
        decode(data, other)
    assert rejected.value.reason is Reason.WRONG_CHECKSUM


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 13, SMALL.size - 1])
def test_weights_that_are_not_finite(value, place):
    assert refusal(with_weights([*[0.0] * place, value])) is Reason.NOT_FINITE


@pytest.mark.parametrize("bits", [0x7FC0, 0x7F80, 0xFF80, 0x7F81])
def test_rounded_weights_that_are_not_finite(bits):
    data = payload_bytes(encoding=Encoding.BFLOAT16)[:-2] + struct.pack("<H", bits)
    assert refusal(data, encoding=Encoding.BFLOAT16) is Reason.NOT_FINITE
    squeezed = compressed(data)
    assert refusal(squeezed, encoding=Encoding.BFLOAT16_ZSTD) is Reason.NOT_FINITE


@pytest.mark.parametrize("value", [1e38, -3.4e38, 6000.0])
def test_weights_that_are_too_large(value):
    assert refusal(with_weights([value])) is Reason.NORM


def test_updates_are_checked_like_models():
    parts = frozenset({Part.LAST_UPDATE})
    data = payload_bytes(parts)[:-4] + struct.pack("<f", np.nan)
    assert refusal(data, parts) is Reason.NOT_FINITE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda header: header.pop("conv.bias"), Reason.WRONG_NAMES),
        (lambda header: header.update({"other": header.pop("scale")}), Reason.WRONG_NAMES),
        (lambda header: header.update({"\ud800\n": header.pop("scale")}), Reason.WRONG_NAMES),
        (lambda header: header.update({"conv.bias": header.pop("conv.bias")}), Reason.WRONG_NAMES),
        (lambda header: header.update(more=entry("F32", [0], 108, 108)), Reason.WRONG_NAMES),
        (lambda header: header.clear(), Reason.WRONG_NAMES),
        (lambda header: header["conv.weight"].update(shape=[3, 4]), Reason.WRONG_SHAPE),
        (lambda header: header["conv.weight"].update(shape=[12]), Reason.WRONG_SHAPE),
        (lambda header: header["conv.weight"].update(shape=[4, 3, 1]), Reason.WRONG_SHAPE),
        (lambda header: header["conv.weight"].update(shape=[]), Reason.WRONG_SHAPE),
        (lambda header: header["conv.weight"].update(shape=[10**17] * 9), Reason.WRONG_SHAPE),
        (lambda header: header["conv.weight"].update(dtype="F64"), Reason.WRONG_DTYPE),
        (lambda header: header["conv.weight"].update(dtype="BF16"), Reason.WRONG_DTYPE),
        (lambda header: header["conv.weight"].update(dtype="O"), Reason.WRONG_DTYPE),
        (lambda header: header["conv.weight"].update(dtype="x" * 2000), Reason.WRONG_DTYPE),
        (lambda header: header["conv.bias"].update(data_offsets=[44, 60]), Reason.WRONG_OFFSETS),
        (lambda header: header["conv.bias"].update(data_offsets=[52, 68]), Reason.WRONG_OFFSETS),
        (lambda header: header["conv.bias"].update(data_offsets=[0, 16]), Reason.WRONG_OFFSETS),
        (lambda header: header["conv.bias"].update(data_offsets=[64, 48]), Reason.WRONG_OFFSETS),
        (lambda header: header["scale"].update(data_offsets=[104, 10**17]), Reason.WRONG_OFFSETS),
    ],
)
def test_a_header_that_is_not_mine(change, reason):
    def with_prefix(header):
        plain = {name.removeprefix("model/"): value for name, value in header.items()}
        change(plain)
        header.clear()
        header.update({f"model/{name}": value for name, value in plain.items()})

    assert refusal(altered(with_prefix)) is reason


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": None},
        {"dtype": ["F32"]},
        {"shape": None},
        {"shape": "43"},
        {"shape": {"4": 3}},
        {"shape": [4.0, 3]},
        {"shape": [-4, -3]},
        {"shape": [True, 3]},
        {"shape": [4, [3]]},
        {"shape": [float("nan")]},
        {"shape": [10**18]},
        {"shape": NESTED},
        {"data_offsets": [0]},
        {"data_offsets": [0, 48, 48]},
        {"data_offsets": [0.0, 48]},
        {"data_offsets": [False, 48]},
        {"data_offsets": [0, -48]},
        {"data_offsets": [0, float("inf")]},
        {"data_offsets": [0, 2**64]},
        {"data_offsets": {}},
        {"another": 1},
    ],
)
def test_entries_that_are_none(changes):
    data = altered(lambda header: header["model/conv.weight"].update(changes))
    assert refusal(data) is Reason.MALFORMED


@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets"])
def test_entries_that_lack_something(field):
    data = altered(lambda header: header["model/scale"].pop(field))
    assert refusal(data) is Reason.MALFORMED


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"5",
        b'"model"',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        '{"a": {}}'.encode("utf-16"),
        b"{} {}",
        b"\x00" * 64,
        b"[" * 4000,
        b'{"a":' * 800,
        b"[" * 2000 + b"]" * 2000,
        b"1" * 4500,
        b"-",
        b"1e999",
        b"NaN",
        b'{"__metadata__": {"a": 1.5}}',
    ],
)
def test_headers_that_are_none(text):
    tensors = taken_apart(payload_bytes())[1]
    assert refusal(put_together(text.ljust(8), tensors)) is Reason.MALFORMED


def test_a_header_that_says_something_twice():
    header, tensors = taken_apart(payload_bytes())
    text = json.dumps(header)
    name = '"model/scale": '
    twice = text.replace(name, name + "{}, " + name)
    assert refusal(put_together(twice.encode(), tensors)) is Reason.MALFORMED
    inside = text.replace('"dtype": ', '"dtype": "F64", "dtype": ', 1)
    assert refusal(put_together(inside.encode(), tensors)) is Reason.MALFORMED


def test_metadata_are_not_expected():
    header, tensors = taken_apart(payload_bytes())
    data = put_together({"__metadata__": {"format": "pt"}} | header, tensors)
    assert refusal(data) is Reason.WRONG_NAMES
    data = put_together(header | {"__metadata__": entry("F32", [0], 108, 108)}, tensors)
    assert refusal(data) is Reason.WRONG_NAMES


def test_a_flood_of_metadata():
    header, tensors = taken_apart(payload_bytes())
    data = put_together({"__metadata__": {"a": "b" * 10**6}} | header, tensors)
    with_message = refusal(data, WITH_MESSAGE)
    assert (refusal(data), with_message) == (Reason.TOO_LARGE, Reason.TOO_LARGE)


def test_a_hundred_thousand_tensors():
    one = b'"message/%d":{"dtype":"U8","shape":[0],"data_offsets":[108,108]}'
    many = b",".join(one % number for number in range(10**5))
    header, tensors = taken_apart(payload_bytes())
    data = put_together(json.dumps(header).encode()[:-1] + b"," + many + b"}", tensors)
    assert refusal(data, WITH_MESSAGE) is Reason.TOO_LARGE  # by what is announced
    honest = payload_bytes(WITH_MESSAGE)
    decoder = Decoder(SMALL, announced(honest, WITH_MESSAGE))
    with pytest.raises(Refused) as rejected:
        decoder.feed(data[:100])  # by the length of the header
    assert rejected.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", Encoding)
def test_ten_gigabytes_announced(encoding):
    manifest = Manifest(bytes(32), 10 * 2**30, encoding, ALL_PARTS)
    with pytest.raises(Refused) as rejected:
        Decoder(SMALL, manifest)
    assert rejected.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**31, 10**6])
def test_a_header_longer_than_any(length):
    data = length.to_bytes(8, "little") + payload_bytes()[8:]
    assert refusal(data) is Reason.TOO_LARGE


def test_a_header_that_leaves_no_room_for_the_tensors():
    data = payload_bytes()
    length = int.from_bytes(data[:8], "little") + 1
    assert refusal(length.to_bytes(8, "little") + data[8:]) is Reason.TRUNCATED


@pytest.mark.parametrize("encoding", PLAIN)
def test_bytes_after_the_tensors(encoding):
    assert refusal(payload_bytes(encoding=encoding) + b"\0", encoding=encoding) is (
        Reason.WRONG_OFFSETS
    )


@pytest.mark.parametrize("encoding", Encoding)
def test_more_bytes_than_announced(encoding):
    data = payload_bytes(encoding=encoding)
    decoder = Decoder(SMALL, announced(data, encoding=encoding))
    with pytest.raises(Refused) as rejected:
        decoder.feed(data + b"\0")
    assert rejected.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", Encoding)
def test_bytes_after_the_end(encoding):
    data = payload_bytes(encoding=encoding)
    decoder = Decoder(SMALL, announced(data, encoding=encoding))
    decoder.feed(data)
    decoder.finish()
    with pytest.raises(Refused) as rejected:
        decoder.feed(b"\0")
    assert rejected.value.reason is Reason.TOO_LARGE
    with pytest.raises(Refused):
        decoder.finish()


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_bytes(encoding, protocol):
    data = pickle.dumps({"model/scale": np.zeros(200)}, protocol)
    expected = Reason.MALFORMED if encoding.is_compressed else Reason.TOO_LARGE
    honest = payload_bytes(WITH_MESSAGE, encoding)
    decoder = Decoder(SMALL, announced(honest, WITH_MESSAGE, encoding))
    with pytest.raises(Refused) as rejected:
        decoder.feed(data[:64])
    assert rejected.value.reason is expected
    assert refusal(data, WITH_MESSAGE, encoding) is expected


@pytest.mark.parametrize("encoding", Encoding)
def test_nothing_at_all(encoding):
    with pytest.raises(Refused) as rejected:
        Decoder(SMALL, announced(b"", encoding=encoding))
    assert rejected.value.reason is Reason.TRUNCATED


@pytest.mark.parametrize(
    ("digest", "parts"),
    [(b"", MODEL), (bytes(31), MODEL), (bytes(64), MODEL), (bytes(32), frozenset())],
)
def test_announcements_that_are_none(digest, parts):
    with pytest.raises(Refused) as rejected:
        Decoder(SMALL, Manifest(digest, 500, Encoding.FLOAT32, parts))
    assert rejected.value.reason is Reason.MALFORMED


def test_parts_that_were_not_announced():
    assert refusal(payload_bytes(WITH_MESSAGE)) is Reason.WRONG_NAMES
    assert refusal(payload_bytes(ALL_PARTS), WITH_MESSAGE) is Reason.WRONG_NAMES
    assert refusal(payload_bytes(frozenset({Part.LAST_UPDATE}))) is Reason.WRONG_NAMES
    assert refusal(payload_bytes(), frozenset({Part.MODEL, Part.LAST_UPDATE})) is Reason.TRUNCATED


@pytest.mark.parametrize("encoding", PLAIN)
def test_another_encoding_than_announced(encoding):
    other = Encoding(1 - encoding)
    data = put_together(*taken_apart(payload_bytes(WITH_MESSAGE, other)))
    padded = data if encoding is Encoding.BFLOAT16 else data + bytes(SMALL.num_bytes // 2)
    assert refusal(padded, WITH_MESSAGE, encoding) is Reason.WRONG_DTYPE
