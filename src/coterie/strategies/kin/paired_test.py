"""Kin's paired test: is another model as good as the own model, on the own data?

If two peers have the same task, their models are exchangeable: the paired difference of per-sample
losses has a mean of at most 0, up to sampling noise. The samples themselves estimate this noise, so
the test has no threshold to tune.

References
----------
Schwarz, "Estimating the dimension of a model", 1978 (BIC).

Welch, "The generalization of 'Student's' problem when several different population variances are
involved", 1947.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Losses: TypeAlias = npt.NDArray[np.float32]
"""Per-sample losses of a model, (n,), with the samples always in the same order."""


def z_scores(losses: Losses, reference: Losses) -> npt.NDArray[np.float64]:
    """Return z = mean(d) / (sd(d)/√n) of d = losses − reference: standard errors above it.

    Parameters
    ----------
    losses
        Per-sample losses of one model, (n,), or of several, (m, n).
    reference
        Per-sample losses of the model to compare with, (n,).

    Examples
    --------
    >>> float(z_scores(np.float32([2, 1, 3, 2]), np.float32([1, 1, 1, 1])).round(3))
    2.449
    """
    num_samples = losses.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):  # ∞ − ∞ is NaN
        difference = losses.astype(np.float64) - reference
        mean = np.add.reduce(difference, axis=-1) / num_samples
        if num_samples < 2:  # one sample does not estimate its own noise
            return np.where(np.isfinite(mean), 0.0, np.inf)
        # Not np.std: it would compute the mean again, and this function is called very often.
        difference -= mean[..., np.newaxis]
        variance = np.add.reduce(difference * difference, axis=-1) / (num_samples - 1)
        error = np.sqrt(variance) / math.sqrt(num_samples)
        # Without noise any difference is certain.
        z = np.where((error == 0) & (mean == 0), 0.0, mean / error)
    return np.where(np.isfinite(mean), z, np.inf)  # a loss that is not finite never matches


def is_worse(losses: Losses, reference: Losses) -> bool:
    """Whether a model is worse by BIC: max(z, 0)² ≥ ln n.

    Parameters
    ----------
    losses, reference
        Per-sample losses of the model and of the one to compare with, (n,) each.

    Examples
    --------
    >>> is_worse(np.float32([2, 1, 3, 2]), np.float32([1, 1, 1, 1]))
    True
    """
    return max(float(z_scores(losses, reference)), 0.0) ** 2 >= math.log(len(losses))


def compare(theirs: Mapping[int, Losses], reference: Losses) -> dict[int, float]:
    """Return q_k = 1 / (1 + exp(max(z, 0)²/2 − ln(n)/2)): the posterior of "exchangeable" by BIC.

    Parameters
    ----------
    theirs
        {peer: per-sample losses}, (n,) each.
    reference
        Per-sample losses of the model to compare with, (n,).

    Examples
    --------
    >>> mine = np.float32([1.0, 1.2] * 50)
    >>> results = compare({1: mine, 2: mine + np.float32([0.0, 0.5] * 50)}, mine)
    >>> {peer: round(q, 3) for peer, q in results.items()}
    {1: 0.909, 2: 0.0}
    """
    if not theirs:
        return {}
    found = z_scores(np.array(list(theirs.values())), reference).tolist()
    return {peer: _posterior(z, len(reference)) for peer, z in zip(theirs, found, strict=True)}


def _posterior(z: float, num_samples: int) -> float:
    power = max(z, 0.0) ** 2 / 2 - math.log(num_samples) / 2
    return 1 / (1 + math.exp(power)) if power < 700 else 0.0


def compare_with_best(
    theirs: Mapping[int, Losses], in_training: Mapping[int, Losses]
) -> dict[int, float]:
    """Return q_k of each model against the best of them, on validation and training data.

    The own model has memorised its training data, so it cannot be compared on them. Fetched models
    can be compared with each other there, and the larger number of samples separates models that
    the validation data cannot. A fetched model that was merged with the own one has memorised some
    training data too. So other models may be worse there by h = max(ℓ̄_validation − ℓ̄_training, 0)
    of the best model.

    Parameters
    ----------
    theirs
        {peer: per-sample losses on validation data}, (n,) each.
    in_training
        {peer: per-sample losses on training data}, (N,) each; if empty, validation data decide.

    Examples
    --------
    >>> one, two = np.float32([1.0, 1.2] * 5), np.float32([1.2, 1.0] * 5)
    >>> theirs, in_training = {1: one, 2: two}, {1: np.tile(one, 10), 2: np.tile(two + 1, 10)}
    >>> {peer: round(q, 3) for peer, q in compare_with_best(theirs, {}).items()}
    {1: 0.76, 2: 0.76}
    >>> {peer: round(q, 3) for peer, q in compare_with_best(theirs, in_training).items()}
    {1: 0.913, 2: 0.0}
    """
    joined = {
        peer: np.concatenate([losses, in_training[peer]]) if in_training else losses
        for peer, losses in theirs.items()
    }
    best = best_model(joined)
    reference = joined[best]
    if in_training:
        memorised = max(mean_loss(theirs[best]) - mean_loss(in_training[best]), 0.0)
        reference = np.concatenate([theirs[best], in_training[best] + np.float32(memorised)])
    return compare(joined, reference)


def best_model(losses: Mapping[int, Losses]) -> int:
    """Return the peer whose model has the lowest mean loss; among equals, the lowest number.

    Parameters
    ----------
    losses
        {peer: per-sample losses}, (n,) each.

    Examples
    --------
    >>> best_model({3: np.float32([1, 2]), 1: np.float32([0, 1])})
    1
    """
    means = np.array(list(losses.values()), np.float64).mean(axis=-1)
    means[~np.isfinite(means)] = np.inf
    return min(zip(means.tolist(), losses, strict=True))[1]


def has_increased(now: Losses, before: Losses) -> bool:
    """Whether a mean loss is higher than before by Welch's test, z² ≥ ln n.

    Parameters
    ----------
    now, before
        Per-sample losses, (n,) and (n′,); samples and models may differ.

    Examples
    --------
    >>> before = np.float32([0.9, 1.1] * 20)
    >>> has_increased(before + 1, before), has_increased(before - 1, before)
    (True, False)
    """
    rise = float(now.mean(dtype=np.float64) - before.mean(dtype=np.float64))
    if len(now) < 2 or len(before) < 2 or not rise > 0:
        return False
    error = math.sqrt(now.var(ddof=1) / len(now) + before.var(ddof=1) / len(before))
    return error == 0 or (rise / error) ** 2 >= math.log(len(now))


def mean_loss(losses: Losses) -> float:
    """Return the mean of per-sample losses, (n,); ∞ if it is not finite.

    Parameters
    ----------
    losses
        Per-sample losses, (n,).

    Examples
    --------
    >>> mean_loss(np.float32([1, 2])), mean_loss(np.float32([1, np.nan]))
    (1.5, inf)
    """
    mean = float(losses.mean(dtype=np.float64))
    return mean if math.isfinite(mean) else math.inf
