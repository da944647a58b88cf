"""Messages beside a model: few, small and plain arrays, or they are refused."""

from __future__ import annotations

import numpy as np
import pytest
from payloads import (
    ALL_PARTS,
    MODEL,
    announced,
    decode,
    entry,
    payload_bytes,
    put_together,
    refusal,
    taken_apart,
)

from coterie.peer.refusals import Reason
from coterie.peer.wire.model import Part
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import DecoderLimits

WITH_MESSAGE = MODEL | {Part.MESSAGE}


def with_array(key: str, dtype: str, shape: list[int], size: int) -> bytes:
    """Return a model with a message of one array."""
    header, tensors = taken_apart(payload_bytes())
    stop = len(tensors) + size
    return put_together(
        header | {f"message/{key}": entry(dtype, shape, len(tensors), stop)}, tensors + bytes(size)
    )


@pytest.mark.parametrize("encoding", [Encoding.FLOAT32, Encoding.BFLOAT16])
def test_a_truncated_message(encoding):
    data = payload_bytes(WITH_MESSAGE, encoding)
    assert refusal(data[:-1], WITH_MESSAGE, encoding) is Reason.WRONG_OFFSETS


def test_values_of_a_message_may_be_anything():
    data = payload_bytes(ALL_PARTS)
    message = decode(data, announced(data, ALL_PARTS)).message
    assert np.isnan(message["similarities"][1])


@pytest.mark.parametrize(
    ("key", "dtype", "shape", "size", "reason"),
    [
        ("Upper", "F64", [1], 8, Reason.WRONG_NAMES),
        ("", "F64", [1], 8, Reason.WRONG_NAMES),
        ("x" * 33, "F64", [1], 8, Reason.WRONG_NAMES),
        ("a/b", "F64", [1], 8, Reason.WRONG_NAMES),
        ("a\n", "F64", [1], 8, Reason.WRONG_NAMES),
        ("table", "F16", [1], 2, Reason.WRONG_DTYPE),
        ("table", "BF16", [1], 2, Reason.WRONG_DTYPE),
        ("table", "object", [1], 8, Reason.WRONG_DTYPE),
        ("table", "F64", [], 8, Reason.WRONG_SHAPE),
        ("table", "F64", [1, 1, 1], 8, Reason.WRONG_SHAPE),
        ("table", "F64", [1] * 500, 8, Reason.WRONG_SHAPE),
        ("peers", "U8", [2, 31], 62, Reason.WRONG_SHAPE),
        ("peers", "U8", [64], 64, Reason.WRONG_SHAPE),
        ("peers", "I64", [2, 32], 512, Reason.WRONG_DTYPE),
        ("table", "F64", [10**9], 8, Reason.TOO_LARGE),
        ("table", "F64", [0, 10**17], 0, Reason.TOO_LARGE),
        ("table", "F64", [10**17, 10**17], 0, Reason.TOO_LARGE),
        ("table", "U8", [1025], 1025, Reason.TOO_LARGE),
        ("table", "F64", [2], 8, Reason.WRONG_OFFSETS),
        ("table", "F64", [1], 16, Reason.WRONG_OFFSETS),
    ],
)
def test_arrays_no_message_may_have(key, dtype, shape, size, reason):
    data = with_array(key, dtype, shape, size)
    limits = DecoderLimits(largest_message_bytes=1024)
    assert refusal(data, WITH_MESSAGE, limits=limits) is reason


def test_a_message_of_many_arrays_or_bytes():
    header, tensors = taken_apart(payload_bytes())
    end = len(tensors)
    many = {f"message/{letter}": entry("U8", [0], end, end) for letter in "abcdefghijklmnopq"}
    assert refusal(put_together(header | many, tensors), WITH_MESSAGE) is Reason.TOO_LARGE
    two = {
        "message/a": entry("U8", [600], end, end + 600),
        "message/b": entry("U8", [600], end + 600, end + 1200),
    }
    data = put_together(header | two, tensors + bytes(1200))
    limits = DecoderLimits(largest_message_bytes=1199)
    assert refusal(data, WITH_MESSAGE, limits=limits) is Reason.TOO_LARGE
    limits = DecoderLimits(largest_message_bytes=1200)
    assert decode(data, announced(data, WITH_MESSAGE), limits=limits).message.keys() == {"a", "b"}


def test_tensors_of_the_model_may_not_hide_in_the_message():
    header, tensors = taken_apart(payload_bytes())
    end = len(tensors)
    header["model/scale "] = entry("F32", [], end, end + 4)
    assert refusal(put_together(header, tensors + bytes(4)), WITH_MESSAGE) is Reason.WRONG_NAMES
