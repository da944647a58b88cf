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
Values: TypeAlias = npt.NDArray[np.float64]


def z_scores(losses: Losses, reference: Losses) -> Values:
    """z = mean(d) / (sd(d)/√n) of d = losses − reference: how much worse, in standard errors.

    Of one model, (n,), or of several at once, (m, n).
    """
    num_samples = losses.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):  # ∞ − ∞ is no number either
        difference = losses.astype(np.float64) - reference
        mean = np.add.reduce(difference, axis=-1) / num_samples
        if num_samples < 2:  # one sample says nothing of its own noise
            return np.where(np.isfinite(mean), 0.0, np.inf)
        # Not by std: it would work out the mean again, and this is asked very often.
        difference -= mean[..., np.newaxis]
        variance = np.add.reduce(difference * difference, axis=-1) / (num_samples - 1)
        error = np.sqrt(variance) / math.sqrt(num_samples)
        # Without any noise every difference is beyond doubt.
        z = np.where((error == 0) & (mean == 0), 0.0, mean / error)
    return np.where(np.isfinite(mean), z, np.inf)  # whatever is no number is no match


def is_worse(losses: Losses, reference: Losses) -> bool:
    """Whether max(z, 0)² ≥ ln n: by BIC a difference is the better explanation."""
    return max(float(z_scores(losses, reference)), 0.0) ** 2 >= math.log(len(losses))


def compare(theirs: Mapping[int, Losses], reference: Losses) -> dict[int, float]:
    """q = 1 / (1 + exp(max(z, 0)²/2 − ln(n)/2)): the posterior of "exchangeable" by BIC."""
    if not theirs:
        return {}
    found = z_scores(np.array(list(theirs.values())), reference).tolist()
    return {peer: _posterior(z, len(reference)) for peer, z in zip(theirs, found, strict=True)}


def _posterior(z: float, num_samples: int) -> float:
    power = max(z, 0.0) ** 2 / 2 - math.log(num_samples) / 2
    return 1 / (1 + math.exp(power)) if power < 700 else 0.0


def compare_with_best(
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
    best = best_model(joined)
    reference = joined[best]
    if practised:
        by_heart = max(mean_loss(theirs[best]) - mean_loss(practised[best]), 0.0)
        reference = np.concatenate([theirs[best], practised[best] + np.float32(by_heart)])
    return compare(joined, reference)


def best_model(losses: Mapping[int, Losses]) -> int:
    """Return whose loss is the lowest."""
    means = np.array(list(losses.values()), np.float64).mean(axis=-1)
    means[~np.isfinite(means)] = np.inf
    return min(zip(means.tolist(), losses, strict=True))[1]


def has_increased(now: Losses, before: Losses) -> bool:
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
