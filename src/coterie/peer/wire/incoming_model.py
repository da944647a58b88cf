"""Buffers for the bytes of a payload: vectors and messages that are checked while they fill."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Model, Part, Vector
from coterie.peer.wire.payload_header import MESSAGE_DTYPES, Tensor

_BLOCK = 2**16
"""Number of weights checked at a time: few enough to stay in the processor's cache."""


class IncomingVector:
    """A vector (P,) of float32, filled from bytes of float32 or, widened, of bfloat16."""

    def __init__(self, size: int, dtype: str, largest_norm: float) -> None:
        self._values: npt.NDArray[np.float32] = np.empty(size, "<f4")
        self._bytes = self._values.view(np.uint8).data
        self._is_rounded = dtype == "BF16"
        self._largest_norm = largest_norm
        self._squares = 0.0
        self._num_checked = 0
        self._num_written = 0
        self._half = b""
        self.num_missing = size * (2 if self._is_rounded else 4)
        """Number of missing bytes."""

    def write(self, data: memoryview) -> None:
        """Take the next bytes, which may end within a number."""
        self.num_missing -= len(data)
        if self._is_rounded:
            self._widen(data)
        else:
            self._bytes[self._num_written : self._num_written + len(data)] = data
            self._num_written += len(data)
        self._check(self._num_written // 4)

    def finish(self) -> Vector:
        """Return the vector in this machine's byte order."""
        return self._values.astype(np.float32, copy=False)

    def _widen(self, data: memoryview) -> None:
        """Write bfloat16 numbers, which are the upper halves of float32 numbers."""
        if self._half and data:
            first, data = self._half + bytes(data[:1]), data[1:]
            self._half = b""
            self._write_halves(np.frombuffer(first, "<u2"))
        if len(data) % 2:
            data, self._half = data[:-1], bytes(data[-1:])
        halves = np.frombuffer(data, "<u2")
        for start in range(0, len(halves), _BLOCK):
            self._write_halves(halves[start : start + _BLOCK])

    def _write_halves(self, halves: npt.NDArray[np.uint16]) -> None:
        start = self._num_written // 4
        bits = self._values.view("<u4")[start : start + len(halves)]
        np.left_shift(halves, 16, out=bits, dtype=np.uint32)
        self._num_written += 4 * len(halves)

    def _check(self, num_complete: int) -> None:
        """Refuse weights that are not finite or make the norm too large, as early as possible."""
        for start in range(self._num_checked, num_complete, _BLOCK):
            self._squares += _squares(self._values[start : min(start + _BLOCK, num_complete)])
        self._num_checked = num_complete
        if self._squares > self._largest_norm**2:
            detail = f"the weights' norm is above {self._largest_norm:.3g}"
            raise Refused(Reason.NORM, detail)


class IncomingMessage:
    """The arrays of a message, kept as bytes until all are there."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._data = bytearray()
        self.num_missing = sum(tensor.num_bytes for tensor in tensors)
        """Number of missing bytes."""

    def write(self, data: memoryview) -> None:
        """Take the next bytes."""
        self.num_missing -= len(data)
        self._data += data

    def finish(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays in this machine's byte order."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        start = 0
        for tensor in self._tensors:
            data = self._data[start : start + tensor.num_bytes]
            values = np.frombuffer(data, MESSAGE_DTYPES[tensor.dtype])
            arrays[tensor.key] = values.astype(values.dtype.newbyteorder("=")).reshape(tensor.shape)
            start += tensor.num_bytes
        return arrays


class IncomingModel:
    """The whole payload after its header, part by part."""

    def __init__(self, vectors: Mapping[Part, IncomingVector], message: IncomingMessage) -> None:
        self._vectors = vectors
        self._message = message
        self._order: list[IncomingVector | IncomingMessage] = [*vectors.values(), message]

    @property
    def num_missing(self) -> int:
        """Return the number of missing bytes."""
        return sum(each.num_missing for each in self._order)

    def write(self, data: memoryview) -> None:
        """Take the next bytes, at most the missing ones."""
        for each in self._order:
            taken = data[: each.num_missing]
            if taken:
                each.write(taken)
                data = data[len(taken) :]

    def finish(self) -> Model:
        """Return the model."""
        vectors = {part: vector.finish() for part, vector in self._vectors.items()}
        return Model(vectors, self._message.finish())


def _squares(values: Vector) -> float:
    """Return the sum of squares of weights that are finite."""
    # One pass suffices if all is well: a value that is not finite makes the sum not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.dot(values, values))
    if math.isfinite(total):
        return total
    if not np.isfinite(values).all():
        raise Refused(Reason.NOT_FINITE, "weights that are NaN or infinite")
    return float(np.square(values, dtype=np.float64).sum())  # large, but float64 can hold it
