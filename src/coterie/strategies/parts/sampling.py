"""Choosing peers at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Unseen: TypeAlias = Literal["zero", "epsilon"]
EPSILON = 1e-6
"""What every peer's probability is raised by when the unseen are left out of the softmax."""
LARGEST = 1e300
"""Where τ·s ends: a neighbour may claim any similarity, and infinities cannot be compared."""


def sample_uniformly(
    rng: np.random.Generator, candidates: npt.NDArray[np.int64], count: int
) -> tuple[int, ...]:
    """Draw `count` distinct candidates uniformly; all of them where there are fewer."""
    chosen = rng.choice(candidates, size=min(count, len(candidates)), replace=False)
    return tuple(int(peer) for peer in chosen)


@dataclass(frozen=True)
class SamplingProbabilities:
    """A distribution p_i over peers, kept as logarithms: a tiny chance is still a chance."""

    peers: npt.NDArray[np.int64]
    log_probabilities: npt.NDArray[np.float64]

    def sample(self, rng: np.random.Generator, count: int) -> tuple[int, ...]:
        """Draw distinct peers one after another from what is left, (at most) `count` of them.

        Adding Gumbel noise to log p and taking the largest is the same distribution, and works
        where probabilities are too small for floating-point numbers.
        """
        keys = self.log_probabilities + rng.gumbel(size=len(self.peers))
        return tuple(int(self.peers[place]) for place in np.argsort(-keys, kind="stable")[:count])

    def log_probability(self, peer: int) -> float:
        """Return log p_i(peer)."""
        (place,) = np.flatnonzero(self.peers == peer)
        return float(self.log_probabilities[place])


def uniform_probabilities(
    peers: npt.NDArray[np.int64], among: npt.NDArray[np.int64]
) -> SamplingProbabilities:
    """Return equal chances for those of the peers that are `among` these, and none for others."""
    chosen = np.isin(peers, among)
    each = -np.log(max(int(np.count_nonzero(chosen)), 1))
    return SamplingProbabilities(peers, np.where(chosen, each, -np.inf))


def softmax_probabilities(
    peers: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
    tau: float,
    unseen: Unseen = "zero",
) -> SamplingProbabilities:
    """p_i = softmax(τ·s_i) over peers; NaN stands for those nobody knows.

    "zero" gives the unseen s = 0 inside the softmax (the paper); "epsilon" leaves them out, then
    adds 1e-6 to all and renormalises (the thesis).
    """
    unknown = np.isnan(similarities)
    if len(peers) == 0 or unknown.all():
        return SamplingProbabilities(peers, np.full(len(peers), -np.log(max(len(peers), 1))))
    with np.errstate(over="ignore"):
        scaled = np.clip(tau * np.where(unknown, 0.0, similarities), -LARGEST, LARGEST)
    if unseen == "zero":
        return SamplingProbabilities(peers, _log_softmax(scaled))
    known = _log_softmax(np.where(unknown, -np.inf, scaled))
    raised = np.exp(known) + EPSILON
    return SamplingProbabilities(peers, np.log(raised / raised.sum()))


def _log_softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return log softmax with the maximum subtracted, so that nothing overflows."""
    shifted = values - values.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
