"""One operation of a translated module."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.learning.native import library

Pair = tuple[int, int]
PARAMETRIC = (
    library.CONVOLUTION,
    library.LINEAR,
    library.BATCH_NORM,
    library.GROUP_NORM,
    library.LAYER_NORM,
    library.EMBEDDING,
)
"""The operations that may have parameters."""


@dataclass(frozen=True)
class Step:
    """One operation of the compiled library; see source/network.h for the fields."""

    kind: int
    outputs: int = 0
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    relu: bool = False
    pool: int = 1
    count_padding: bool = False
    layer: int = 0
    whole_channels: bool = False
    rate: float = 0.0
    weight: int = 0
    bias: int = -1
    source: int = 1
    other: int = 0
    count: int = 0
    skipped_row: int = -1
    is_flat: bool = False
    epsilon: float = 0.0
    momentum: float = 0.0
    slope: float = 0.0
    mean: int = -1
    variance: int = -1

    def operation(self) -> library.Operation:
        """Return the library's structure."""
        return library.Operation(
            kind=self.kind,
            outputs=self.outputs,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
            relu=self.relu,
            pool=self.pool,
            count_padding=self.count_padding,
            layer=self.layer,
            whole_channels=self.whole_channels,
            rate=self.rate,
            weight=self.weight,
            bias=self.bias,
            source=self.source,
            other=self.other,
            count=self.count,
            skipped_row=self.skipped_row,
            is_flat=self.is_flat,
            epsilon=self.epsilon,
            momentum=self.momentum,
            slope=self.slope,
            mean=self.mean,
            variance=self.variance,
        )
