"""Separate scores into two classes by hard EM on a mixture of two Gaussians (NAEM of PANM).

References
----------
Li et al., "Mining latent relationships among clients: peer-to-peer federated learning with adaptive
neighbor matching", 2022.

Hagander, Ihre-Thomason, "With a little help from my friends: a comparative study of decentralized
deep learning strategies", master's thesis, Lund University, 2024. Appendix B, Algorithm 3.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.similarity_table import Values

Mask = npt.NDArray[np.bool_]

MAX_ITERATIONS = 100
SMALLEST_SHARE = 0.1
"""Lower bound of the variance of a class, as a share of the variance of all scores.

Otherwise a class of one would have a density of infinity at its only member and never lose it.
"""


def find_similar(scores: Values, initial: Mask) -> Mask:
    """Return which scores belong to the class with the higher mean.

    EM alternates between fitting both classes and assigning scores until no score moves. If there
    are no two classes to separate, the initial assignment stays.

    Parameters
    ----------
    scores
        Similarities, (n,). Those that are not finite are ignored and belong to neither class.
    initial
        The initial members of the similar class, (n,) booleans.

    Examples
    --------
    >>> scores = np.array([0.90, 0.80, 0.85, 0.10, 0.20])
    >>> find_similar(scores, initial=np.array([True, False, False, False, False]))
    array([ True,  True,  True, False, False])
    """
    finite = np.isfinite(scores)
    similar = np.zeros(len(scores), dtype=bool)
    similar[finite] = _separate(_scale(scores[finite]), initial[finite])
    return similar


def _separate(scores: Values, initial: Mask) -> Mask:
    if len(scores) == 0 or scores.min() == scores.max():
        return initial
    similar = _run_em(scores, initial)
    if not similar.any():
        return initial
    if similar.all():
        return similar
    if scores[similar].mean() < scores[~similar].mean():
        # EM does not name the classes: the one with the higher mean is the similar one.
        similar = ~similar
    return _correct_tails(scores, similar)


def _correct_tails(scores: Values, similar: Mask) -> Mask:
    """Correct the tails, where the wider of two Gaussians is denser on both sides.

    A score above the mean of the similar class is similar; one below the other mean is not.
    """
    if scores[similar].var() > scores[~similar].var():
        return np.asarray(similar & (scores > scores[~similar].mean()))
    return np.asarray(similar | (scores >= scores[similar].mean()))


def _run_em(scores: Values, similar: Mask) -> Mask:
    """Move scores to the class with the higher density until none moves, or 100 times."""
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
    """Return ln(β·N(s; μ, σ²)) of a class, up to a constant; −∞ if it has no members."""
    if not members.any():
        return np.full(len(scores), -np.inf)
    own = scores[members]
    variance = max(own.var(), SMALLEST_SHARE * scores.var())
    squares = (scores - own.mean()) ** 2 / variance
    return np.asarray(np.log(members.mean()) - 0.5 * (np.log(variance) + squares))


def _scale(scores: Values) -> Values:
    """Scale to [−1, 1] so that no square overflows; the classes do not depend on the scale."""
    largest = np.abs(scores).max(initial=0.0)
    return scores / largest if largest > 0 else scores
