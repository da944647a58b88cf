"""A model encoded as bytes for the network, without copies of its weights where possible."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from coterie.errors import StrategyError
from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Model, Part, Vector
from coterie.peer.wire.payload_header import (
    LARGEST_MESSAGE_BYTES,
    MESSAGE_DTYPES,
    Tensor,
    message_tensor,
    require_message,
    vector_parts,
    vector_tensors,
    write_header,
)
from coterie.peer.wire.strategy_tables import require_tables
from coterie.strategies.requests import Range

CHUNK_BYTES = 2**20
"""Largest chunk."""
_COMPRESSION_LEVEL = 1
"""Weights are almost noise: higher levels take longer and save nothing more."""
_BLOCK = 2**16
"""Number of weights converted at a time: few enough to stay in the processor's cache."""


class Encoding(IntEnum):
    """How a model is encoded; the numbers are those of the protocol."""

    FLOAT32 = 0
    BFLOAT16 = 1
    FLOAT32_ZSTD = 2
    BFLOAT16_ZSTD = 3

    @property
    def is_compressed(self) -> bool:
        """Return whether the payload is one zstd frame."""
        return self in (Encoding.FLOAT32_ZSTD, Encoding.BFLOAT16_ZSTD)

    @property
    def dtype(self) -> str:
        """Return the type of the weights as safetensors calls it; messages are never rounded."""
        return "BF16" if self in (Encoding.BFLOAT16, Encoding.BFLOAT16_ZSTD) else "F32"


@dataclass(frozen=True, eq=False)
class Payload:
    """The bytes of a model; the model's arrays must not change while they are served."""

    digest: bytes
    """The SHA-256 of the bytes as sent."""
    size: int
    num_tensor_bytes: int
    """Of the tensors without the header; if compressed, of the whole payload."""
    encoding: Encoding
    parts: frozenset[Part]
    pieces: tuple[memoryview, ...]
    """The bytes in order, mostly views of the model itself."""

    def chunks(self, offset: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes from an offset on, each chunk with its own offset."""
        if not 0 <= offset <= self.size:
            detail = f"asked to continue from byte {offset} of {self.size}"
            raise Refused(Reason.MALFORMED, detail)
        return self._chunks(offset, chunk_bytes)

    def _chunks(self, offset: int, chunk_bytes: int) -> Iterator[tuple[int, bytes]]:
        gathered: list[memoryview] = []
        num_gathered = 0
        for view in _from(self.pieces, offset):
            start = 0
            while start < len(view):
                taken = view[start : start + chunk_bytes - num_gathered]
                gathered.append(taken)
                num_gathered += len(taken)
                start += len(taken)
                if num_gathered == chunk_bytes:
                    yield offset, b"".join(gathered)
                    offset += num_gathered
                    gathered, num_gathered = [], 0
        if gathered:
            yield offset, b"".join(gathered)


def encode(
    model: Model,
    layout: Layout,
    parts: frozenset[Part],
    encoding: Encoding,
    table_ranges: Mapping[str, Range] | None = None,
) -> Payload:
    """Return the payload of some parts of a model; refuse parts that the model does not have.

    Tables must lie within the ranges that a peer with the same strategy accepts.
    """
    vectors = _vectors(model, layout, parts)
    arrays = _message(model, table_ranges or {}) if Part.MESSAGE in parts else {}
    tensors = vector_tensors(layout, parts, encoding.dtype) + list(arrays)
    if encoding.dtype == "BF16":
        pieces = [_bytes_of(to_bfloat16(vector)) for vector in vectors]
    else:
        pieces = [_bytes_of(vector.astype("<f4", copy=False)) for vector in vectors]
    pieces += [_bytes_of(array) for array in arrays.values()]
    num_tensor_bytes = sum(len(piece) for piece in pieces)
    pieces.insert(0, memoryview(write_header(tensors)))
    if encoding.is_compressed:
        pieces = _compressed(pieces)
        num_tensor_bytes = sum(len(piece) for piece in pieces)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    size = sum(len(piece) for piece in pieces)
    return Payload(digest.digest(), size, num_tensor_bytes, encoding, parts, tuple(pieces))


def to_bfloat16(vector: Vector) -> npt.NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16 numbers; ties round to even."""
    bits = vector.view(np.uint32)
    rounded = np.empty(bits.shape, "<u2")
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        # Adding just less than half, and one more if the last kept bit is odd, carries as needed.
        up = (block >> 16) & 1
        up += block
        up += 0x7FFF
        up >>= 16
        # NaN would carry into its sign; it must stay NaN.
        is_nan = np.isnan(vector[start : start + _BLOCK])
        rounded[start : start + _BLOCK] = np.where(is_nan, 0x7FC0, up)
    return rounded


def _vectors(model: Model, layout: Layout, parts: frozenset[Part]) -> list[Vector]:
    """Return the requested vectors in the order of a payload."""
    if not parts:
        raise Refused(Reason.MALFORMED, "no part of the model was requested")
    vectors = []
    for part in vector_parts(parts):
        if part not in model.vectors:
            name = part.name.lower().replace("_", "-")
            raise Refused(Reason.GONE, f"the model is offered without its {name}")
        vector = np.ascontiguousarray(model.vectors[part])
        if vector.shape != (layout.size,) or vector.dtype != np.float32:
            raise ValueError(
                f"The vector is {vector.dtype} of shape {vector.shape}, "
                f"but the layout needs float32 of shape ({layout.size},)."
            )
        vectors.append(vector)
    return vectors


def _message(model: Model, table_ranges: Mapping[str, Range]) -> dict[Tensor, npt.NDArray[Any]]:
    """Return the message's arrays, little-endian, by their tensors in the header."""
    names = {np.dtype(kind): dtype for dtype, kind in MESSAGE_DTYPES.items()}
    arrays = {}
    for key, array in model.message.items():
        ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        dtype = names.get(ordered.dtype, str(ordered.dtype))
        arrays[message_tensor(key, dtype, array.shape)] = ordered
    try:
        require_message(list(arrays), LARGEST_MESSAGE_BYTES)
        require_tables(model.message, table_ranges)
    except Refused as refused:
        raise StrategyError(
            f"The strategy's message cannot be sent: {refused.detail}. Return less, or other "
            "types, from its method message()."
        ) from None
    return arrays


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _compressed(pieces: Iterable[memoryview]) -> list[memoryview]:
    """Return the pieces as one zstd frame that states its size."""
    given = list(pieces)
    compressor = zstandard.ZstdCompressor(_COMPRESSION_LEVEL, write_checksum=True)
    frame = compressor.compressobj(size=sum(len(piece) for piece in given))
    slices = (
        piece[start : start + CHUNK_BYTES]
        for piece in given
        for start in range(0, len(piece), CHUNK_BYTES)
    )
    written = [frame.compress(data) for data in slices]
    written.append(frame.flush())
    return [memoryview(data) for data in written if data]


def _from(pieces: Iterable[memoryview], offset: int) -> Iterator[memoryview]:
    """Yield the pieces without the first `offset` bytes."""
    for piece in pieces:
        if offset < len(piece):
            yield piece[offset:]
        offset = max(offset - len(piece), 0)
