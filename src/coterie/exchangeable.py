"""Is another's model as good as mine on my own data? A paired test, which has its own scale.

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


def verdicts(
    theirs: Mapping[int, Losses], mine: Losses, *, linkage: bool = True
) -> dict[int, float]:
    """Return q_k of several models, the best first.

    With `linkage` one that is a little worse than mine, but exchangeable with it, becomes what the
    next ones are compared with: kin of my kin is my kin.
    """
    reference, found = mine, {}
    for peer in sorted(theirs, key=lambda peer: (_mean(theirs[peer]), peer)):
        found[peer] = verdict(theirs[peer], reference)
        if linkage and found[peer] > 0.5 and excess(theirs[peer], reference) > 0:
            reference = theirs[peer]
    return found


def has_jumped(now: Losses, before: Losses) -> bool:
    """Whether losses of different samples, or of different models, are higher than they were."""
    rise = float(now.mean(dtype=np.float64) - before.mean(dtype=np.float64))
    if len(now) < 2 or len(before) < 2 or not rise > 0:
        return False
    error = math.sqrt(now.var(ddof=1) / len(now) + before.var(ddof=1) / len(before))
    return error == 0 or (rise / error) ** 2 >= math.log(len(now))


def _mean(losses: Losses) -> float:
    mean = float(losses.mean(dtype=np.float64))
    return mean if math.isfinite(mean) else math.inf
