"""One network of the compiled library: its memory and its calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import TrainingError
from coterie.learning.native.library import (
    CROSS_ENTROPY,
    ERRORS,
    SQUARED_ERROR,
    Data,
    EvaluateCall,
    Library,
    Operation,
    TrainCall,
    Training,
)
from coterie.learning.native.translate_module import Step
from coterie.learning.trainer import Matrix, Unsupported


class CompiledNetwork:
    """The compiled library's memory for one model and one thread at a time."""

    def __init__(
        self,
        library: Library,
        steps: Sequence[Step],
        shape: tuple[int, ...],
        *,
        has_classes: bool,
    ) -> None:
        self._library = library
        self._shape = shape
        self._has_classes = has_classes
        operations = (Operation * len(steps))(*(step.operation() for step in steps))
        # A flat sample is an image of one pixel with many channels.
        sizes = (ctypes.c_int64 * 3)(*((shape[0], 1, 1) if len(shape) == 1 else shape))
        loss = CROSS_ENTROPY if has_classes else SQUARED_ERROR
        self._handle = library.create(ctypes.byref(operations), len(steps), sizes, loss)
        if not self._handle:
            raise Unsupported("the sizes of its layers do not fit together, or are too large")

    def train(self, training: Training, calls: ctypes.Array[TrainCall]) -> None:
        """Run local trainings in turn."""
        self._check(
            self._library.train(
                self._handle, ctypes.byref(training), ctypes.byref(calls), len(calls)
            )
        )

    def evaluate(self, calls: ctypes.Array[EvaluateCall]) -> None:
        """Run evaluations in turn."""
        self._check(self._library.evaluate(self._handle, ctypes.byref(calls), len(calls)))

    def gradient(self, model: Matrix, inputs: Matrix, targets: npt.NDArray[Any]) -> Matrix:
        """Return the gradient (P,) of the mean loss of all rows."""
        data = data_at(inputs, targets, self._shape, has_classes=self._has_classes)
        rows = np.arange(len(inputs))
        gradient = np.zeros_like(model)
        self._check(
            self._library.gradient(
                self._handle,
                ctypes.byref(data),
                address(model),
                address(rows),
                len(rows),
                address(gradient),
            )
        )
        return gradient

    def close(self) -> None:
        """Free the memory."""
        self._library.free(self._handle)
        self._handle = None

    def _check(self, status: int) -> None:
        if status:
            raise TrainingError(f"The compiled trainer refused a job: {ERRORS[status]}.")


def data_at(
    inputs: Matrix, targets: npt.NDArray[Any], shape: tuple[int, ...], *, has_classes: bool
) -> Data:
    """Return the addresses of a pool of samples; the arrays must exist as long as it is used."""
    _require(inputs, np.float32, (len(inputs), *shape))
    _require(targets, np.int64 if has_classes else np.float32, (len(inputs),))
    return Data(address(inputs), address(targets), len(inputs))


def _require(array: npt.NDArray[Any], kind: type[np.generic], shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape or not array.flags.c_contiguous:
        raise Unsupported(
            f"its data are {array.dtype} of shape {array.shape}, not {kind.__name__} of shape "
            f"{shape}, or are not contiguous"
        )


def address(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)
