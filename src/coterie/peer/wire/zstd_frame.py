"""Decompression of one zstd frame that comes in pieces, with a bound on its size."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from coterie.peer.refusals import Reason, Refused

_MAGIC = b"\x28\xb5\x2f\xfd"
"""The beginning of a frame; other frames exist, which hold nothing and are to be skipped."""
LARGEST_FRAME_HEADER = 18
"""The limit of the format, in bytes."""
LARGEST_WINDOW = 2**23
"""How far back a frame may refer; that much memory is needed beside the model."""
_LARGEST_BLOCK = 2**17
"""The limit of the format, before and after decompression."""
_SMALLEST_BLOCK = 2**10
"""Smallest average size of a block: millions of empty ones would only cost time."""
_BLOCK_HEADER = 3
_AS_IT_IS, _REPEATED = 0, 1
"""Types of blocks whose header gives the size of the output: raw bytes, and one repeated byte."""


def largest_compressed(size: int) -> int:
    """Return the largest frame for so many bytes: data that cannot be compressed grow."""
    return size + size // 256 + 1024


class ZstdFrame:
    """Decompresses one frame block by block.

    The library returns the whole output of its input, and four bytes can become 128 KiB. It
    therefore gets one block at a time, whose output the format limits.
    """

    def __init__(self, smallest: int, largest: int) -> None:
        self.content_bytes = 0
        """The announced size of the content, once the header was read."""
        self.is_complete = False
        self._smallest = smallest
        self._largest = largest
        self._pending = bytearray()
        self._is_header_read = False
        self._is_last = False
        self._num_out = 0
        self._num_blocks = 0
        self._stream = zstandard.ZstdDecompressor().decompressobj()

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Yield the output, at most 128 KiB at a time."""
        self._pending += data
        if not self._is_header_read and len(self._pending) >= LARGEST_FRAME_HEADER:
            self.content_bytes = self._content_bytes()
            self._is_header_read = True
            yield from self._out(self._taken(zstandard.frame_header_size(self._pending)))
        while self._is_header_read and (length := self._next_bytes()):
            yield from self._out(self._taken(length))

    def _content_bytes(self) -> int:
        """Return the size of the content from the checked header."""
        try:
            header = zstandard.get_frame_parameters(self._pending)
        except zstandard.ZstdError:
            header = None
        if header is None or not self._pending.startswith(_MAGIC):
            raise Refused(Reason.MALFORMED, "the payload is not a zstd frame")
        size = header.content_size
        if size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            raise Refused(Reason.MALFORMED, "the zstd frame does not state the size of its content")
        if size > self._largest:
            detail = f"the zstd frame holds {size} bytes, at most {self._largest} are allowed"
            raise Refused(Reason.BOMB, detail)
        if size < self._smallest:
            detail = f"the zstd frame holds {size} bytes, at least {self._smallest} are needed"
            raise Refused(Reason.TRUNCATED, detail)
        if header.window_size > LARGEST_WINDOW:
            detail = f"the zstd frame needs a window of {header.window_size} bytes"
            raise Refused(Reason.TOO_LARGE, f"{detail}, at most {LARGEST_WINDOW} are allowed")
        return size

    def _next_bytes(self) -> int:
        """Return the size of the next block, or of the end after the last; 0: not yet complete."""
        if self._is_last:
            return len(self._pending)
        if len(self._pending) < _BLOCK_HEADER:
            return 0
        header = int.from_bytes(self._pending[:_BLOCK_HEADER], "little")
        kind, size = header >> 1 & 3, header >> 3
        if size > _LARGEST_BLOCK:
            raise Refused(Reason.MALFORMED, "a block of the zstd frame is too long")
        if kind in (_AS_IT_IS, _REPEATED):
            self._require_room(size)
        length = _BLOCK_HEADER + (1 if kind == _REPEATED else size)
        if len(self._pending) < length:
            return 0
        self._is_last = bool(header & 1)
        self._num_blocks += 1
        if self._num_blocks > 64 + self.content_bytes // _SMALLEST_BLOCK:
            raise Refused(Reason.TOO_LARGE, "the zstd frame has more blocks than it needs")
        return length

    def _taken(self, length: int) -> bytearray:
        data = self._pending[:length]
        del self._pending[:length]
        return data

    def _out(self, data: bytearray) -> Iterator[bytes]:
        """Decompress one block, or the bytes around blocks."""
        if self.is_complete:
            raise Refused(Reason.MALFORMED, "something follows the zstd frame")
        try:
            out = self._stream.decompress(data)
        except zstandard.ZstdError:
            raise Refused(Reason.MALFORMED, "the zstd frame is damaged") from None
        self._require_room(len(out))
        self._num_out += len(out)
        if self._stream.unused_data:
            raise Refused(Reason.MALFORMED, "something follows the zstd frame")
        self.is_complete = self._stream.eof
        if out:
            yield out

    def _require_room(self, size: int) -> None:
        """Refuse output beyond the announced size."""
        if self._num_out + size > self.content_bytes:
            detail = (
                f"the zstd frame becomes longer than the {self.content_bytes} bytes it announced"
            )
            raise Refused(Reason.BOMB, detail)
