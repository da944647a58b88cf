"""Telling two kinds of peers apart by their scores: hard EM on two Gaussians (PANM, NAEM)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_ITERATIONS = 100
SMALLEST_SHARE = 0.1
"""The least variance of a class, as a share of the variance of all scores.

A class of one would otherwise be infinitely sure of its only member, and never let it go.
"""


def find_similar(scores: Values, believed: Mask) -> Mask:
    """Return which of the scores (n,) belong to the class with the higher mean.

    Starts from those believed to belong there, and alternates between fitting and assigning until
    nobody changes sides. Without two classes to tell apart, what was believed stays. Scores that
    are no finite numbers take no part and belong nowhere.
    """
    finite = np.isfinite(scores)
    similar = np.zeros(len(scores), dtype=bool)
    similar[finite] = _separated(_scaled(scores[finite]), believed[finite])
    return similar


def _separated(scores: Values, believed: Mask) -> Mask:
    if len(scores) == 0 or scores.min() == scores.max():
        return believed
    similar = _settled(scores, believed)
    if not similar.any():
        return believed
    if similar.all():
        return similar
    if scores[similar].mean() < scores[~similar].mean():
        # EM does not know the classes by name: the better one is the similar one.
        similar = ~similar
    return _in_order(scores, similar)


def _in_order(scores: Values, similar: Mask) -> Mask:
    """Let nobody be too similar to belong, nor so dissimilar as to belong after all.

    Far out on both sides the wider of two Gaussians is the denser one, whichever it is.
    """
    if scores[similar].var() > scores[~similar].var():
        return np.asarray(similar & (scores > scores[~similar].mean()))
    return np.asarray(similar | (scores >= scores[similar].mean()))


def _settled(scores: Values, similar: Mask) -> Mask:
    """Move scores between the classes until none wants to, or time is up."""
    for _ in range(MAX_ITERATIONS):
        gain = _log_density(scores, similar) - _log_density(scores, ~similar)
        moved = np.where(gain == 0, similar, gain > 0)
        if (moved == similar).all():
            break
        similar = moved
        if similar.all() or not similar.any():
            break
    return similar


def _log_density(scores: Values, members: Mask) -> Values:
    """Return log β·N(s; μ, σ²) of the class, up to a constant; −∞ if it has no members."""
    if not members.any():
        return np.full(len(scores), -np.inf)
    own = scores[members]
    variance = max(own.var(), SMALLEST_SHARE * scores.var())
    squares = (scores - own.mean()) ** 2 / variance
    return np.asarray(np.log(members.mean()) - 0.5 * (np.log(variance) + squares))


def _scaled(scores: Values) -> Values:
    """Scale to [−1, 1], so that no square overflows; nothing else depends on the scale."""
    largest = np.abs(scores).max(initial=0.0)
    return scores / largest if largest > 0 else scores
