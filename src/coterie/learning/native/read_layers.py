"""Reads torch's layers and functions of one input as steps of the compiled library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch import nn

from coterie.learning.native import library
from coterie.learning.native.step import Pair, Step
from coterie.learning.trainer import Unsupported

Shape = tuple[int, ...]
Read = Callable[..., Step | None]

FLATTEN = Step(kind=0)
"""nn.Flatten while a module is read; the library has no such operation."""
LOG_SOFTMAX = Step(kind=-1)
"""To be dropped: cross-entropy applies log-softmax, and a second one has no effect."""
DEFAULT_SLOPE = 0.01


def _pair(value: Any) -> Pair:
    one, other = (value, value) if isinstance(value, int) else tuple(value)
    return int(one), int(other)


def _convolution(layer: nn.Conv2d) -> Step:
    if layer.groups != 1 or _pair(layer.dilation) != (1, 1) or layer.padding_mode != "zeros":
        raise Unsupported("a convolution has groups, dilation or a padding mode")
    if isinstance(layer.padding, str):
        raise Unsupported(f"a convolution has padding '{layer.padding}'")
    return Step(
        library.CONVOLUTION,
        layer.out_channels,
        _pair(layer.kernel_size),
        _pair(layer.stride),
        _pair(layer.padding),
    )


def _max_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Step:
    if ceil_mode or return_indices or _pair(dilation) != (1, 1):
        raise Unsupported("max-pooling has dilation, ceil mode or returns indices")
    return _pool(library.MAX_POOL, kernel_size, stride, padding)


def _average_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Step:
    if ceil_mode or divisor_override is not None:
        raise Unsupported("average pooling has ceil mode or a divisor override")
    pool = _pool(library.AVERAGE_POOL, kernel_size, stride, padding)
    return replace(pool, count_padding=count_include_pad)


def _pool(kind: int, kernel_size: Any, stride: Any, padding: Any) -> Step:
    kernel = _pair(kernel_size)
    return Step(
        kind,
        kernel=kernel,
        stride=kernel if stride is None or stride == [] else _pair(stride),
        padding=_pair(padding),
    )


def adaptive_average_pool(shape: Shape, output_size: Any) -> Step:
    """Return the average pooling of samples (C, H, W) to a size that divides theirs."""
    height, width = shape[1:]
    one, other = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    rows, columns = one or height, other or width
    if height % rows or width % columns:
        raise Unsupported(
            f"its adaptive pooling of {height} × {width} to {rows} × {columns} has windows of "
            "different sizes"
        )
    window = height // rows, width // columns
    return Step(library.AVERAGE_POOL, kernel=window, stride=window)


def _activation(kind: int) -> Read:
    def read(inplace: bool = False) -> Step:
        return Step(kind)

    return read


def _leaky_relu(negative_slope: float = DEFAULT_SLOPE, inplace: bool = False) -> Step:
    return Step(library.LEAKY_RELU, slope=float(negative_slope))


def _gelu(approximate: str = "none") -> Step:
    return Step(library.GELU_TANH if approximate == "tanh" else library.GELU)


def _flatten(start_dim: int = 0, end_dim: int = -1) -> Step:
    if (start_dim, end_dim) != (1, -1):
        raise Unsupported("it does not flatten each sample completely")
    return FLATTEN


def _dropout(layer: nn.Dropout | nn.Dropout2d) -> Step:
    return Step(library.DROPOUT, rate=layer.p, whole_channels=isinstance(layer, nn.Dropout2d))


def _log_softmax(layer: nn.LogSoftmax) -> Step:
    if layer.dim not in (1, -1):
        raise Unsupported("its log-softmax is not over the classes")
    return LOG_SOFTMAX


def _batch_norm(layer: nn.BatchNorm1d | nn.BatchNorm2d) -> Step:
    if not layer.track_running_stats or layer.momentum is None:
        raise Unsupported(
            "a batch normalisation has no running statistics, or averages them over all batches"
        )
    return Step(
        library.BATCH_NORM,
        is_flat=isinstance(layer, nn.BatchNorm1d),
        epsilon=layer.eps,
        momentum=layer.momentum,
    )


def _group_norm(layer: nn.GroupNorm) -> Step:
    return Step(library.GROUP_NORM, count=layer.num_groups, epsilon=layer.eps)


def _layer_norm(layer: nn.LayerNorm) -> Step:
    return Step(library.LAYER_NORM, epsilon=layer.eps)


def _embedding(layer: nn.Embedding | nn.EmbeddingBag) -> Step:
    if layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
        raise Unsupported("an embedding has a largest norm, scaled or sparse gradients")
    if isinstance(layer, nn.EmbeddingBag) and (
        layer.mode != "mean" or layer.include_last_offset or layer.padding_idx is not None
    ):
        raise Unsupported("an embedding bag does not average all rows")
    return Step(
        library.EMBEDDING,
        layer.embedding_dim,
        count=layer.num_embeddings,
        skipped_row=-1 if layer.padding_idx is None else layer.padding_idx,
    )


LAYERS: dict[type[nn.Module], Callable[[Any], Step | None]] = {
    nn.Conv2d: _convolution,
    nn.Linear: lambda layer: Step(library.LINEAR, layer.out_features),
    nn.MaxPool2d: lambda pool: _max_pool(
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.dilation,
        pool.ceil_mode,
        pool.return_indices,
    ),
    nn.AvgPool2d: lambda pool: _average_pool(
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.ceil_mode,
        pool.count_include_pad,
        pool.divisor_override,
    ),
    nn.ReLU: lambda _: Step(library.RELU),
    nn.Tanh: lambda _: Step(library.TANH),
    nn.Sigmoid: lambda _: Step(library.SIGMOID),
    nn.SiLU: lambda _: Step(library.SILU),
    nn.GELU: lambda layer: _gelu(layer.approximate),
    nn.LeakyReLU: lambda layer: _leaky_relu(layer.negative_slope),
    nn.Flatten: lambda layer: _flatten(layer.start_dim, layer.end_dim),
    nn.Dropout: _dropout,
    nn.Dropout2d: _dropout,
    nn.Identity: lambda _: None,
    nn.LogSoftmax: _log_softmax,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
    nn.EmbeddingBag: _embedding,
}
_relu = _activation(library.RELU)
_tanh = _activation(library.TANH)
_sigmoid = _activation(library.SIGMOID)
FUNCTIONS: dict[Any, Read] = {
    F.relu: _relu,
    torch.relu: _relu,
    torch.relu_: _relu,
    F.tanh: _tanh,
    torch.tanh: _tanh,
    F.sigmoid: _sigmoid,
    torch.sigmoid: _sigmoid,
    F.silu: _activation(library.SILU),
    F.leaky_relu: _leaky_relu,
    F.gelu: _gelu,
    torch.flatten: _flatten,
    F.max_pool2d: _max_pool,
    torch.max_pool2d: _max_pool,
    F.avg_pool2d: _average_pool,
}
METHODS: dict[str, Read] = {
    "relu": _relu,
    "relu_": _relu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "flatten": _flatten,
}
