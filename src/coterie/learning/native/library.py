"""Loads the compiled library, and describes its functions and structures for ctypes.

The structures have the same fields, in the same order, as in source/network.h and source/kernels.c.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from typing import Any

MODULE = "coterie.learning.native._kernels"

CONVOLUTION, LINEAR, MAX_POOL, AVERAGE_POOL, RELU, DROPOUT = range(1, 7)
TANH, SIGMOID, GELU, GELU_TANH, LEAKY_RELU, SILU = range(7, 13)
BATCH_NORM, GROUP_NORM, LAYER_NORM, EMBEDDING, ADD = range(13, 18)
CROSS_ENTROPY, SQUARED_ERROR, BINARY_CROSS_ENTROPY, HUBER, ABSOLUTE_ERROR = range(1, 6)
LOSSES = {
    "cross-entropy": CROSS_ENTROPY,
    "mse": SQUARED_ERROR,
    "bce": BINARY_CROSS_ENTROPY,
    "huber": HUBER,
    "mae": ABSOLUTE_ERROR,
}
OPTIMIZERS = {"sgd": 1, "adam": 2, "adamw": 3}
ERRORS = {
    1: "a row number lies outside the data",
    2: "a label is not among the model's classes",
    3: "batch normalisation needs more than one sample in a batch, but the last batch of an epoch "
    "has only one. Choose another training.batch_size",
    4: "a token is not among the rows of the model's embedding",
    5: "a batch is larger than the network was made for",
}

_Pair = ctypes.c_int32 * 2


class Operation(ctypes.Structure):
    """One operation of a network."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("kernel", _Pair),
        ("stride", _Pair),
        ("padding", _Pair),
        ("relu", ctypes.c_int32),
        ("pool", ctypes.c_int32),
        ("count_padding", ctypes.c_int32),
        ("layer", ctypes.c_int32),
        ("whole_channels", ctypes.c_int32),
        ("rate", ctypes.c_float),
        ("weight", ctypes.c_int64),
        ("bias", ctypes.c_int64),
        ("source", ctypes.c_int32),
        ("other", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("skipped_row", ctypes.c_int32),
        ("is_flat", ctypes.c_int32),
        ("epsilon", ctypes.c_float),
        ("momentum", ctypes.c_float),
        ("slope", ctypes.c_float),
        ("mean", ctypes.c_int64),
        ("variance", ctypes.c_int64),
    )


class Training(ctypes.Structure):
    """The optimiser and its settings."""

    _fields_ = (
        ("optimizer", ctypes.c_int32),
        ("batch_size", ctypes.c_int32),
        ("learning_rate", ctypes.c_float),
        ("momentum", ctypes.c_float),
        ("weight_decay", ctypes.c_float),
        ("beta1", ctypes.c_float),
        ("beta2", ctypes.c_float),
        ("epsilon", ctypes.c_float),
    )


class Data(ctypes.Structure):
    """A pool of samples."""

    _fields_ = (
        ("inputs", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("num_rows", ctypes.c_int64),
    )


class TrainCall(ctypes.Structure):
    """One local training; the library writes `loss`."""

    _fields_ = (
        ("data", ctypes.POINTER(Data)),
        ("model", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("num_samples", ctypes.c_int64),
        ("epochs", ctypes.c_int64),
        ("first_layer", ctypes.c_int32),
        ("bits", ctypes.c_uint64),
        ("loss", ctypes.c_double),
    )


class EvaluateCall(ctypes.Structure):
    """One evaluation; the library writes `losses`, and `correct` and `outputs` where wanted."""

    _fields_ = (
        ("data", ctypes.POINTER(Data)),
        ("model", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("num_samples", ctypes.c_int64),
        ("losses", ctypes.c_void_p),
        ("correct", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
    )


class Library:
    """The library's functions for the best level of this processor."""

    def __init__(self, path: str, level: str | None = None) -> None:
        loaded = ctypes.CDLL(path)
        loaded.coterie_level.restype = ctypes.c_char_p
        self.level: str = level or loaded.coterie_level().decode()
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        number, status = ctypes.c_int32, ctypes.c_int
        self.create = self._function(
            loaded,
            "create",
            pointer,
            pointer,
            number,
            ctypes.POINTER(count),
            number,
            count,
            number,
        )
        self.num_outputs = self._function(loaded, "num_outputs", count, pointer)
        self.free = self._function(loaded, "free", None, pointer)
        self.train = self._function(loaded, "train", status, pointer, pointer, pointer, count)
        self.evaluate = self._function(loaded, "evaluate", status, pointer, pointer, count)
        self.gradient = self._function(
            loaded, "gradient", status, pointer, pointer, pointer, pointer, count, pointer
        )
        self.widen = self._function(loaded, "widen", number, number)
        self.multiply_adds = self._function(
            loaded, "multiply_adds", count, count, ctypes.POINTER(ctypes.c_float)
        )

    def _function(self, loaded: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(loaded, f"coterie_{name}_{self.level}")
        function.restype, function.argtypes = result, arguments
        return function


@cache
def find_library() -> Library | str:
    """Return the compiled library, or the reason why there is none."""
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        return (
            "the compiled trainer was not built when Coterie was installed (is there a C compiler?)"
        )
    try:
        return Library(found.origin)
    except (OSError, AttributeError) as error:
        return f"the compiled trainer cannot be loaded: {error}"
