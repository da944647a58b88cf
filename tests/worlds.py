"""Small real data, modules and comparisons that many tests share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from torch import nn

FEATURES = 6
CLASSES = 3


def classify(rng: np.random.Generator, cluster: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points whose class is the largest of three features; clusters permute the classes."""
    points = rng.normal(size=(count, FEATURES)).astype(np.float32)
    return points, (points[:, :CLASSES].argmax(axis=1) + cluster) % CLASSES


def small_module() -> nn.Module:
    """Return a module with two layers."""
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def assert_same_table(one: pa.Table, other: pa.Table) -> None:
    """Compare bit for bit; NaN equals NaN, which pyarrow's own comparison denies."""
    assert one.schema == other.schema
    for name in one.column_names:
        np.testing.assert_array_equal(
            one[name].to_numpy(zero_copy_only=False),
            other[name].to_numpy(zero_copy_only=False),
            err_msg=name,
        )
