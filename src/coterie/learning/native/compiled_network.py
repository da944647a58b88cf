"""One network of the compiled library: its memory and its calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import TrainingError
from coterie.learning.native.library import (
    EMBEDDING,
    ERRORS,
    LOSSES,
    OPTIMIZERS,
    Data,
    EvaluateCall,
    Library,
    Operation,
    TrainCall,
    Training,
)
from coterie.learning.native.step import Step
from coterie.learning.trainer import Matrix, Unsupported

Array = npt.NDArray[Any]
GROUP = 8
"""Samples that are computed together."""


class CompiledNetwork:
    """The compiled library's memory for one model and one thread at a time.

    `batch_size` is the size of the largest batch in training. With `leaves_out`, weights that never
    meet a pixel are not updated; then there must be no weight decay.
    """

    def __init__(
        self,
        library: Library,
        steps: Sequence[Step],
        shape: tuple[int, ...],
        *,
        loss: str,
        batch_size: int = GROUP,
        leaves_out: bool = False,
    ) -> None:
        self._library = library
        operations = (Operation * len(steps))(*(step.operation() for step in steps))
        # A flat sample is an image of one pixel with many channels.
        sizes = (ctypes.c_int64 * 3)(*((shape[0], 1, 1) if len(shape) == 1 else shape))
        self._handle = library.create(
            ctypes.byref(operations), len(steps), sizes, LOSSES[loss], batch_size, leaves_out
        )
        if not self._handle:
            raise Unsupported("the sizes of its layers do not fit together, or are too large")
        self.num_outputs = int(library.num_outputs(self._handle))
        reads_tokens = steps[0].kind == EMBEDDING
        self.samples = SampleFormat(
            shape, np.int64 if reads_tokens else np.float32, loss, self.num_outputs
        )

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

    def gradient(self, model: Matrix, inputs: Array, targets: Array) -> Matrix:
        """Return the gradient (P,) of the mean loss of all rows."""
        data = self.samples.data_at(inputs, targets)
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

    def trained_statistics(self, model: Matrix, inputs: Array, targets: Array) -> Matrix:
        """Return a model (P,) after a step of length zero, with all rows as one batch."""
        trained = model.copy()
        rows = np.arange(len(inputs))
        data = self.samples.data_at(inputs, targets)
        call = TrainCall(
            data=ctypes.pointer(data),
            model=address(trained),
            order=address(rows),
            num_samples=len(rows),
            epochs=1,
        )
        training = Training(optimizer=OPTIMIZERS["sgd"], batch_size=len(rows), learning_rate=0.0)
        self.train(training, (TrainCall * 1)(call))
        return trained

    def outputs(self, model: Matrix, inputs: Array, targets: Array) -> Matrix:
        """Return the outputs (n, num_outputs) of all rows in evaluation."""
        data = self.samples.data_at(inputs, targets)
        rows = np.arange(len(inputs))
        losses = np.empty(len(rows), np.float32)
        outputs = np.empty((len(rows), self.num_outputs), np.float32)
        call = EvaluateCall(
            data=ctypes.pointer(data),
            model=address(model),
            rows=address(rows),
            num_samples=len(rows),
            losses=address(losses),
            outputs=address(outputs),
        )
        self.evaluate((EvaluateCall * 1)(call))
        return outputs

    def close(self) -> None:
        """Free the memory."""
        self._library.free(self._handle)
        self._handle = None

    def _check(self, status: int) -> None:
        if status:
            raise TrainingError(f"The compiled trainer refused a job: {ERRORS[status]}.")


@dataclass(frozen=True)
class SampleFormat:
    """What the samples of a network must look like."""

    shape: tuple[int, ...]
    inputs: type[np.generic]
    loss: str
    num_outputs: int

    def data_at(self, inputs: Array, targets: Array) -> Data:
        """Return the addresses of a pool of samples; the arrays must exist as long as it is used.

        Classes are (n,), values (n, num_outputs); if there is one output, also (n,).
        """
        count = len(inputs)
        _require(inputs, self.inputs, (count, *self.shape))
        if self.loss == "cross-entropy":
            _require(targets, np.int64, (count,))
        else:
            is_single = targets.ndim == 1 and self.num_outputs == 1
            _require(targets, np.float32, (count,) if is_single else (count, self.num_outputs))
        return Data(address(inputs), address(targets), count)


def _require(array: Array, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape or not array.flags.c_contiguous:
        raise Unsupported(
            f"its data are {array.dtype} of shape {array.shape}, not {kind.__name__} of shape "
            f"{shape}, or are not contiguous"
        )


def address(array: Array) -> int:
    return int(array.ctypes.data)
