"""The names of losses, without the libraries that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import torch

LossName: TypeAlias = Literal["cross-entropy", "bce", "mse", "mae", "huber"]
LossFunction: TypeAlias = "Callable[[torch.Tensor, torch.Tensor], torch.Tensor]"
"""From outputs (n, …) and targets (n, …) to one loss per sample, (n,)."""
ScoreFunction: TypeAlias = "Callable[[torch.Tensor, torch.Tensor], float]"
"""From outputs (n, …) and targets (n, …) of all samples to one number."""
LOSSES: tuple[LossName, ...] = ("cross-entropy", "bce", "mse", "mae", "huber")
FOR_CLASSES = ("accuracy", "auc", "f1")
"""Scores of predicted classes or labels; the others are of predicted values."""
