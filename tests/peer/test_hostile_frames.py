"""Compressed payloads that would grow, never end, or hold more than one thing."""

from __future__ import annotations

import tracemalloc

import pytest
import zstandard
from payloads import SMALL, announced, compressed, decode, layout_of, payload_bytes, refusal

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import Decoder

COMPRESSED = [Encoding.FLOAT32_ZSTD, Encoding.BFLOAT16_ZSTD]
BOMBED = layout_of({"weight": (300_000,)})


def frame(content_bytes: int, blocks: list[bytes], window: bytes = b"") -> bytes:
    """Return a zstd frame as anybody can write it, with four bytes for its alleged size."""
    descriptor = b"\x80" if window else b"\xa0"
    size = content_bytes.to_bytes(4, "little")
    return b"\x28\xb5\x2f\xfd" + descriptor + window + size + b"".join(blocks)


def block(kind: int, size: int, data: bytes, is_last: bool = False) -> bytes:
    return (size << 3 | kind << 1 | is_last).to_bytes(3, "little") + data


def test_a_bomb_that_says_so():
    data = compressed(bytes(10**8))
    assert len(data) * 1000 < 10**8
    assert refusal(data, encoding=Encoding.FLOAT32_ZSTD, layout=BOMBED) is Reason.BOMB


@pytest.mark.parametrize("repeated", [bytes(4), bytes(3) + b"\1"])  # blocks of two kinds
def test_a_bomb_that_lies_about_its_size(repeated):
    inner = payload_bytes(layout=BOMBED)
    beginning = inner[: len(inner) - BOMBED.num_bytes]
    parameters = zstandard.ZstdCompressionParameters(window_log=17, write_content_size=True)
    true = compressed(beginning + repeated * 10**7, compression_params=parameters)
    size = (len(beginning) + 4 * 10**7).to_bytes(4, "little")
    data = true.replace(size, len(inner).to_bytes(4, "little"), 1)
    assert data != true
    assert 1000 * len(data) < 4 * 10**7
    manifest = announced(data, encoding=Encoding.FLOAT32_ZSTD)
    tracemalloc.start()
    try:
        with pytest.raises(Refused) as rejected:
            decode(data, manifest, BOMBED, chunk_bytes=2**20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rejected.value.reason is Reason.BOMB
    assert peak < BOMBED.num_bytes + 2**19


def test_a_bomb_in_a_frame_whose_window_is_all_of_it():
    inner = payload_bytes(layout=BOMBED)
    beginning = inner[: len(inner) - BOMBED.num_bytes]
    blocks = [block(0, len(beginning), beginning)] + [block(1, 2**17, b"\0")] * 10_000
    data = frame(len(inner), blocks)
    assert refusal(data, encoding=Encoding.FLOAT32_ZSTD, layout=BOMBED) is Reason.BOMB


@pytest.mark.parametrize("content", [b"", b"\0"])
def test_a_frame_of_countless_blocks(content):
    inner = payload_bytes(layout=BOMBED)
    beginning = inner[: len(inner) - BOMBED.num_bytes]
    blocks = [block(0, len(beginning), beginning)] + [block(0, len(content), content)] * 10_000
    data = frame(len(inner), blocks)
    assert refusal(data, encoding=Encoding.FLOAT32_ZSTD, layout=BOMBED) is Reason.TOO_LARGE


def test_a_frame_of_the_smallest_window_has_not_too_many_blocks():
    parameters = zstandard.ZstdCompressionParameters(window_log=10, write_content_size=True)
    data = compressed(payload_bytes(layout=BOMBED), compression_params=parameters)
    manifest = announced(data, encoding=Encoding.FLOAT32_ZSTD)
    assert decode(data, manifest, BOMBED, chunk_bytes=2**20).vectors


@pytest.mark.parametrize("num_missing", [1, 4])
def test_a_frame_whose_checksum_is_cut(num_missing):
    data = payload_bytes(encoding=Encoding.FLOAT32_ZSTD)[:-num_missing]
    assert refusal(data, encoding=Encoding.FLOAT32_ZSTD) is Reason.TRUNCATED


@pytest.mark.parametrize("is_cut", [False, True])
def test_bytes_after_the_frame(is_cut):
    first, more = compressed(payload_bytes()), b"more"
    decoder = Decoder(SMALL, announced(first + more, encoding=Encoding.FLOAT32_ZSTD))
    if is_cut:
        decoder.feed(first)
    with pytest.raises(Refused, match="malformed: something follows the zstd frame"):
        decoder.feed(more if is_cut else first + more)


def test_a_window_larger_than_allowed():
    inner = payload_bytes()
    blocks = [block(0, len(inner), inner, is_last=True)]
    fine, too_large = (23 - 10) << 3, (24 - 10) << 3
    for window, reason in ((fine, None), (too_large, Reason.TOO_LARGE)):
        data = frame(len(inner), blocks, bytes([window]))
        if reason:
            assert refusal(data, encoding=Encoding.FLOAT32_ZSTD) is reason
        else:
            assert decode(data, announced(data, encoding=Encoding.FLOAT32_ZSTD)).vectors


def skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize("encoding", COMPRESSED)
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda inner: compressed(inner) + compressed(inner),
        lambda inner: compressed(inner) + compressed(b""),
        lambda inner: compressed(inner) + b"\0",
        lambda inner: compressed(inner, write_checksum=True) + b"\0",
        lambda inner: compressed(inner) + skippable(b"more"),
        lambda inner: skippable(inner) + compressed(inner),
        lambda inner: skippable(bytes(len(inner))),
        lambda inner: compressed(inner, write_content_size=False),
        lambda inner: frame(len(inner), [block(3, len(inner), inner, is_last=True)]),
        lambda inner: frame(len(inner), [block(0, 2**17 + 1, bytes(99))]),
        lambda inner: frame(len(inner), [block(0, len(inner) - 1, inner[:-1], is_last=True)]),
        lambda inner: compressed(inner, write_checksum=True)[:-4] + b"\0\0\0\0",
        lambda inner: inner,
    ],
)
def test_anything_but_one_good_frame(encoding, wrapped):
    plain = Encoding.FLOAT32 if encoding is Encoding.FLOAT32_ZSTD else Encoding.BFLOAT16
    inner = payload_bytes(encoding=plain)
    assert refusal(wrapped(inner), encoding=encoding) is Reason.MALFORMED


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_frames_that_hold_too_little_or_too_much(encoding):
    plain = Encoding.FLOAT32 if encoding is Encoding.FLOAT32_ZSTD else Encoding.BFLOAT16
    inner = payload_bytes(encoding=plain)
    assert refusal(compressed(inner[-40:]), encoding=encoding) is Reason.TRUNCATED
    assert refusal(compressed(inner + b"\0"), encoding=encoding) is Reason.WRONG_OFFSETS
