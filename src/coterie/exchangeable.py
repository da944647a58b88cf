"""Is another's model as good as mine on my own data? Paired tests, which have their own scale.

If two peers have the same task, their models are exchangeable: the difference of per-sample losses
is not above zero but for the noise of sampling, which the samples themselves tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Losses: TypeAlias = npt.NDArray[np.float32]
"""Of the same samples in the same order, (n,)."""


def excess(losses: Losses, reference: Losses) -> float:
    """z = mean(d) / (sd(d)/√n) of d = losses − reference: how much worse, in standard errors."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is no number either
        difference = losses.astype(np.float64) - reference
    mean = float(difference.mean())
    if not math.isfinite(mean):
        return math.inf  # whatever is no number is no match
    error = float(difference.std(ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
    if error > 0:
        return mean / error
    return math.copysign(math.inf, mean) if mean and len(losses) > 1 else 0.0


def is_worse(losses: Losses, reference: Losses) -> bool:
    """Whether max(z, 0)² ≥ ln n: by BIC a difference is the better explanation."""
    return max(excess(losses, reference), 0.0) ** 2 >= math.log(len(losses))


def verdict(losses: Losses, reference: Losses) -> float:
    """q = 1 / (1 + exp(max(z, 0)²/2 − ln(n)/2)): the posterior of "exchangeable" by BIC."""
    power = max(excess(losses, reference), 0.0) ** 2 / 2 - math.log(len(losses)) / 2
    return 1 / (1 + math.exp(power)) if power < 700 else 0.0


def against_mine(theirs: Mapping[int, Losses], mine: Losses) -> dict[int, float]:
    """Return how likely each model is as good as mine, by losses on my validation data."""
    return {peer: verdict(losses, mine) for peer, losses in theirs.items()}


def against_the_best(
    theirs: Mapping[int, Losses], practised: Mapping[int, Losses]
) -> dict[int, float]:
    """Return how likely each model is as good as the best of them, on validation and training data.

    My own model knows the training data by heart, theirs do not: so these many samples can tell
    apart from each other whom the few of validation cannot tell from me. But a model that was
    merged with mine knows something by heart too: what the best does better on training data
    (`practised`) than on validation data (`theirs`) is allowed to all others. Without training
    samples (`practised` is empty) those of validation decide.
    """
    joined = {
        peer: np.concatenate([losses, practised[peer]]) if practised else losses
        for peer, losses in theirs.items()
    }
    best = best_of(joined)
    reference = joined[best]
    if practised:
        by_heart = max(mean_loss(theirs[best]) - mean_loss(practised[best]), 0.0)
        reference = np.concatenate([theirs[best], practised[best] + np.float32(by_heart)])
    return {peer: verdict(losses, reference) for peer, losses in joined.items()}


def best_of(losses: Mapping[int, Losses]) -> int:
    """Return whose loss is the lowest."""
    return min(losses, key=lambda peer: (mean_loss(losses[peer]), peer))


def has_jumped(now: Losses, before: Losses) -> bool:
    """Whether losses of different samples, or of different models, are higher than they were."""
    rise = float(now.mean(dtype=np.float64) - before.mean(dtype=np.float64))
    if len(now) < 2 or len(before) < 2 or not rise > 0:
        return False
    error = math.sqrt(now.var(ddof=1) / len(now) + before.var(ddof=1) / len(before))
    return error == 0 or (rise / error) ** 2 >= math.log(len(now))


def mean_loss(losses: Losses) -> float:
    """Return the mean; what is no number is as bad as can be."""
    mean = float(losses.mean(dtype=np.float64))
    return mean if math.isfinite(mean) else math.inf
