"""Computes scores from the outputs of a model for all samples of a data set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata

from coterie.tasks.loss_names import ScoreFunction
from coterie.tasks.losses import IGNORED, like_targets

Array = npt.NDArray[Any]


def correct_predictions(outputs: torch.Tensor, targets: torch.Tensor) -> npt.NDArray[np.bool_]:
    """Return whether predictions are correct: of each sample, position or label."""
    if targets.is_floating_point():  # labels that are 0 or 1, from logits
        return np.asarray(((like_targets(outputs, targets) > 0) == (targets > 0.5)).numpy())
    correct = outputs.argmax(dim=-1) == targets
    return np.asarray(correct.numpy() if targets.ndim == 1 else correct[targets != IGNORED].numpy())


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the share of correct predictions."""
    return float(correct_predictions(outputs, targets).mean())


def area_under_curve(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the area under the ROC curve: the mean over classes, each against all others.

    Classes that all or no samples have are left out; NaN if none is left.
    """
    scores, truth = _by_class(outputs, targets)
    areas = [_area(column, mine) for column, mine in zip(scores.T, truth.T, strict=True)]
    known = [area for area in areas if not np.isnan(area)]
    return float(np.mean(known)) if known else float("nan")


def f1(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the mean F1 over classes that occur among targets or predictions."""
    scores, truth = _by_class(outputs, targets)
    if targets.is_floating_point():
        predicted = scores > 0
    else:
        predicted = np.zeros_like(truth)
        predicted[np.arange(len(scores)), scores.argmax(axis=1)] = True
    hits = (predicted & truth).sum(axis=0)
    occurring = predicted.sum(axis=0) + truth.sum(axis=0)
    return float((2 * hits[occurring > 0] / occurring[occurring > 0]).mean())


def mean_squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the mean squared error."""
    return float((_differences(outputs, targets) ** 2).mean())


def root_mean_squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the root of the mean squared error."""
    return math.sqrt(mean_squared_error(outputs, targets))


def mean_absolute_error(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the mean absolute error."""
    return float(np.abs(_differences(outputs, targets)).mean())


def explained_variance(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return R², 1 − Σ(y−ŷ)²/Σ(y−ȳ)²; NaN if all targets are equal."""
    wanted = targets.numpy().astype(np.float64)
    spread = ((wanted - wanted.mean(axis=0)) ** 2).sum()
    return float(1 - (_differences(outputs, targets) ** 2).sum() / spread) if spread else np.nan


SCORE_FUNCTIONS: dict[str, ScoreFunction] = {
    "accuracy": accuracy,
    "auc": area_under_curve,
    "f1": f1,
    "mse": mean_squared_error,
    "rmse": root_mean_squared_error,
    "mae": mean_absolute_error,
    "r2": explained_variance,
}
"""The functions of the scores in `SCORES`, except of the loss itself."""


def _differences(outputs: torch.Tensor, targets: torch.Tensor) -> npt.NDArray[np.float64]:
    apart = like_targets(outputs, targets).double() - targets.double()
    return np.asarray(apart.numpy())


def _by_class(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return scores and whether they are of the true class or label, both (n, classes)."""
    if targets.is_floating_point():
        scores = like_targets(outputs, targets).numpy()
        return scores.reshape(len(scores), -1), targets.numpy().reshape(len(scores), -1) > 0.5
    known = targets.flatten() != IGNORED
    # Probabilities, because scores of different samples are not on one scale.
    scores = outputs.reshape(-1, outputs.shape[-1])[known].softmax(dim=1).numpy()
    truth = np.zeros(scores.shape, np.bool_)
    truth[np.arange(len(scores)), targets.flatten()[known].numpy()] = True
    return scores, truth


def _area(scores: Array, is_positive: npt.NDArray[np.bool_]) -> float:
    """Return the chance that a positive sample has a higher score than a negative one."""
    positive = int(is_positive.sum())
    negative = len(scores) - positive
    if not positive or not negative:
        return float("nan")
    ranks = rankdata(scores)[is_positive].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))
