"""A dataset in memory: every reader returns one, and a scenario takes a list of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError

Inputs = npt.NDArray[Any]
"""uint8 images or float32 values."""
Targets = npt.NDArray[Any]
"""int64 class numbers, or float32 values for regression."""


@dataclass(frozen=True)
class Dataset:
    """Train and test samples; `inputs` (n, *shape) uint8 images or float32, `targets` (n,).

    Images are channels-first (n, C, H, W) and stay uint8 here: a scenario normalises only the
    images that its peers hold. `classes` is empty for regression, where targets are float32.
    """

    name: str
    inputs: Inputs
    targets: Targets
    test_inputs: Inputs
    test_targets: Targets
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, inputs, targets in (
            ("training", self.inputs, self.targets),
            ("test", self.test_inputs, self.test_targets),
        ):
            check_samples(f"{self.name}, {part} data", inputs, targets)
            _check_labels(f"{self.name}, {part} data", targets, len(self.classes))
        if self.inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise DataError(
                f"{self.name}: training samples have shape {self.inputs.shape[1:]} but test "
                f"samples {self.test_inputs.shape[1:]}; both must be the same."
            )

    @property
    def is_classification(self) -> bool:
        """Whether targets are class numbers, not values."""
        return bool(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.inputs.shape[1:])


def check_samples(where: str, inputs: npt.NDArray[Any], targets: npt.NDArray[Any]) -> None:
    """Raise a DataError unless there are as many inputs as targets, at least one, all finite."""
    if len(inputs) != len(targets):
        raise DataError(
            f"{where}: {len(inputs)} inputs but {len(targets)} targets. Give one target per input."
        )
    if len(inputs) == 0:
        raise DataError(f"{where}: there are no samples.")
    if inputs.dtype != np.uint8:
        finite = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if not finite.all():
            first = int(np.argmin(finite))
            raise DataError(
                f"{where}: {int((~finite).sum())} of {len(inputs)} samples have NaN or infinite "
                f"values; the first is sample {first}. Repair or drop these samples."
            )
    if not np.isfinite(targets).all():
        raise DataError(f"{where}: some targets are NaN or infinite. Drop these samples.")


def _check_labels(where: str, targets: Targets, num_classes: int) -> None:
    if num_classes and (targets.min() < 0 or targets.max() >= num_classes):
        raise DataError(
            f"{where}: labels run from {targets.min()} to {targets.max()}, but there are "
            f"{num_classes} class names, so 0 to {num_classes - 1} was expected. Number the "
            "classes from 0, in the order of their names."
        )
