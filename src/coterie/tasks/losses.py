"""Losses by name: one number per sample, from a model's outputs and the targets.

Outputs and targets begin with the samples, (n, …). A sample with several values, such as several
labels or positions, has the mean over them as its loss.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 — the usual name

from coterie.tasks.loss_names import LossName

IGNORED = -100
"""A class number that counts for nothing, such as padding; the same as in torch."""

_ELEMENTWISE: dict[str, Callable[..., torch.Tensor]] = {
    "bce": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": F.smooth_l1_loss,
}


def losses_of(name: LossName, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return one loss per sample, (n,)."""
    if name == "cross-entropy":
        return _cross_entropies(outputs, targets)
    values = _ELEMENTWISE[name](like_targets(outputs, targets), targets, reduction="none")
    return values if values.ndim == 1 else values.flatten(1).mean(dim=1)


def mean_loss(name: LossName, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of a batch, for training."""
    if name != "cross-entropy":
        return _ELEMENTWISE[name](like_targets(outputs, targets), targets)
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets)
    return _cross_entropies(outputs, targets).mean()


def like_targets(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return outputs in the shape of the targets: a single output per sample is (n, 1) or (n,)."""
    if outputs.ndim == targets.ndim + 1 and outputs.shape[-1] == 1:
        return outputs.squeeze(-1)
    return outputs


def _cross_entropies(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return cross-entropies (n,); with targets (n, …) the means over known positions."""
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets, reduction="none")
    wanted = targets.flatten(1)
    scores = outputs.reshape(*wanted.shape, outputs.shape[-1]).transpose(1, 2)
    values = F.cross_entropy(scores, wanted, reduction="none", ignore_index=IGNORED)
    return values.sum(dim=1) / (wanted != IGNORED).sum(dim=1).clamp(min=1)
