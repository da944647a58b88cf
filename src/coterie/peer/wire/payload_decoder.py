"""Decoder of payloads: bytes from outside become a model only if they fit this peer's layout.

Memory for tensors is allocated after the whole header was checked, and data go straight to their
place. A hostile peer therefore costs no more than one model and a few small buffers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire import protocol_pb2
from coterie.peer.wire.incoming_model import IncomingMessage, IncomingModel, IncomingVector
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_header import (
    LARGEST_MESSAGE_BYTES,
    LENGTH_BYTES,
    largest_header,
    read_header,
    vector_parts,
    vector_tensors,
)
from coterie.peer.wire.strategy_tables import require_tables
from coterie.peer.wire.zstd_frame import LARGEST_FRAME_HEADER, ZstdFrame, largest_compressed
from coterie.strategies.requests import Range

LARGEST_ROOT_MEAN_SQUARE = 1e3
"""Of the weights, unless a limit is set.

Trained weights are around 0.01 to 1. Even the running variances of unscaled images (at most
255²/4 per channel) are too few to lift the mean of all weights that far. A single weight is then at
most 1e3·√P, so merging and comparing models stay far from the end of float32.
"""


@dataclass(frozen=True)
class Manifest:
    """The announcement of a payload."""

    digest: bytes
    size: int
    encoding: Encoding
    parts: frozenset[Part]

    @classmethod
    def read(cls, message: protocol_pb2.Manifest) -> Manifest:
        """Return the announcement in a message; refuse encodings and parts that do not exist."""
        try:
            encoding = Encoding(message.encoding)
            parts = [Part(part) for part in message.parts]
        except ValueError:
            raise Refused(Reason.MALFORMED, "an encoding or part that does not exist") from None
        if len(parts) != len(set(parts)):
            raise Refused(Reason.MALFORMED, "a part is announced twice")
        return cls(message.digest, message.size, encoding, frozenset(parts))


@dataclass(frozen=True)
class DecoderLimits:
    """Limits beyond those that follow from the layout."""

    largest_message_bytes: int = LARGEST_MESSAGE_BYTES
    largest_norm: float | None = None
    """L2 norm of each vector; None: that of weights with LARGEST_ROOT_MEAN_SQUARE."""
    table_ranges: Mapping[str, Range] = field(default_factory=dict)
    """The tables of a message that the strategy reads, with the range of their values."""


class Decoder:
    """Decodes one payload in pieces of any size; raises `Refused` as soon as something is wrong."""

    def __init__(
        self, layout: Layout, manifest: Manifest, limits: DecoderLimits | None = None
    ) -> None:
        self._layout = layout
        self._manifest = manifest
        self._limits = limits or DecoderLimits()
        self._tensors = vector_tensors(layout, manifest.parts, manifest.encoding.dtype)
        self._vector_bytes = sum(tensor.num_bytes for tensor in self._tensors)
        self._largest_header = largest_header(self._tensors)
        self._frame = self._expected()
        self._digest = hashlib.sha256()
        self._num_fed = 0
        self._beginning = bytearray()
        self._model: IncomingModel | None = None
        self._refusal: tuple[Reason, str] | None = None

    @property
    def num_fed(self) -> int:
        """Return the number of bytes so far, where a broken stream continues."""
        return self._num_fed

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._require_unrefused()
        try:
            self._feed(memoryview(data))
        except Refused as refused:
            # Keeping the exception itself would keep its frames, and with them the received data.
            self._refusal = (refused.reason, refused.detail)
            self.discard()
            raise

    def discard(self) -> None:
        """Release the received data; an error that ends the transfer may outlive it."""
        self._model = self._frame = None

    def finish(self) -> Model:
        """Return the model after everything has been fed."""
        self._require_unrefused()
        is_whole = self._num_fed == self._manifest.size and (
            self._frame is None or self._frame.is_complete
        )
        if not is_whole or self._model is None or self._model.num_missing:
            detail = f"it ends after {self._num_fed} of {self._manifest.size} bytes"
            raise Refused(Reason.TRUNCATED, detail)
        if self._digest.digest() != self._manifest.digest:
            raise Refused(Reason.WRONG_CHECKSUM, "the bytes differ from the announced ones")
        model = self._model.finish()
        require_tables(model.message, self._limits.table_ranges)
        return model

    def _expected(self) -> ZstdFrame | None:
        """Refuse an announcement that cannot be true; return the zstd frame if there is one."""
        if len(self._manifest.digest) != hashlib.sha256().digest_size or not self._manifest.parts:
            raise Refused(Reason.MALFORMED, "it is announced without a digest or without parts")
        size = self._manifest.size
        smallest = LENGTH_BYTES + len("{}") + self._vector_bytes
        largest = LENGTH_BYTES + self._largest_header + self._vector_bytes
        largest += self._limits.largest_message_bytes if self._has_message else 0
        frame = ZstdFrame(smallest, largest) if self._manifest.encoding.is_compressed else None
        if frame:
            smallest, largest = LARGEST_FRAME_HEADER, largest_compressed(largest)
        if size > largest:
            detail = f"{size} bytes are announced, at most {largest} are allowed"
            raise Refused(Reason.TOO_LARGE, detail)
        if size < smallest:
            detail = f"{size} bytes are announced, at least {smallest} are needed"
            raise Refused(Reason.TRUNCATED, detail)
        return frame

    @property
    def _has_message(self) -> bool:
        return Part.MESSAGE in self._manifest.parts

    def _require_unrefused(self) -> None:
        if self._refusal:
            raise Refused(*self._refusal)

    def _feed(self, data: memoryview) -> None:
        self._num_fed += len(data)
        if self._num_fed > self._manifest.size:
            detail = f"more than the {self._manifest.size} bytes that were announced"
            raise Refused(Reason.TOO_LARGE, detail)
        self._digest.update(data)
        if self._frame is None:
            self._take(data, self._manifest.size)
            return
        for out in self._frame.feed(data):
            self._take(memoryview(out), self._frame.content_bytes)

    def _take(self, data: memoryview, whole_bytes: int) -> None:
        """Take the next bytes of the safetensors file, which has `whole_bytes` in all."""
        if self._model is None:
            data = self._take_header(data, whole_bytes)
        if self._model is not None:
            self._model.write(data)

    def _take_header(self, data: memoryview, whole_bytes: int) -> memoryview:
        """Take the bytes of the header, allocate what it describes; return the rest."""
        data = self._take_beginning(data, LENGTH_BYTES)
        if len(self._beginning) < LENGTH_BYTES:
            return data
        length = int.from_bytes(self._beginning[:LENGTH_BYTES], "little")
        data_bytes = whole_bytes - LENGTH_BYTES - length
        if length > self._largest_header:
            detail = f"a header of {length} bytes, at most {self._largest_header} are allowed"
            raise Refused(Reason.TOO_LARGE, detail)
        if data_bytes < self._vector_bytes:
            detail = f"{data_bytes} bytes for the tensors, at least {self._vector_bytes} are needed"
            raise Refused(Reason.TRUNCATED, detail)
        data = self._take_beginning(data, LENGTH_BYTES + length)
        if len(self._beginning) == LENGTH_BYTES + length:
            self._model = self._allocate(data_bytes)
        return data

    def _take_beginning(self, data: memoryview, length: int) -> memoryview:
        """Take bytes until the beginning has this length; return the rest."""
        missing = max(length - len(self._beginning), 0)
        self._beginning += data[:missing]
        return data[missing:]

    def _allocate(self, data_bytes: int) -> IncomingModel:
        """Return buffers for the model after its header is complete and checked."""
        text = bytes(self._beginning[LENGTH_BYTES:])
        largest = self._limits.largest_message_bytes if self._has_message else None
        message = read_header(text, self._tensors, data_bytes, largest)
        norm = self._limits.largest_norm
        if norm is None:
            norm = LARGEST_ROOT_MEAN_SQUARE * math.sqrt(self._layout.size)
        vectors = {
            part: IncomingVector(self._layout.size, self._manifest.encoding.dtype, norm)
            for part in vector_parts(self._manifest.parts)
        }
        return IncomingModel(vectors, IncomingMessage(message))
