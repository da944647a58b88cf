"""Sampling peers: uniformly, or from a softmax over similarities.

References
----------
Listo Zec et al., "Decentralized adaptive clustering of deep nets is beneficial for client
collaboration", 2022. Section 3 (softmax over similarities).

Kool, van Hoof, Welling, "Stochastic beams and where to find them: the Gumbel-top-k trick for
sampling sequences without replacement", 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.unlisted_peers import NO_PEERS, UnlistedPeers, draw_smallest
from coterie.strategies.strategy import Peers

Unseen: TypeAlias = Literal["zero", "epsilon"]
EPSILON = 1e-6
"""Added to each probability if peers of unknown similarity are left out of the softmax."""
LARGEST = 1e300
"""Bound of τ·s in absolute value: peers may report anything, and infinities do not compare."""


def sample_uniformly(
    rng: np.random.Generator, candidates: npt.NDArray[np.int64], count: int
) -> tuple[int, ...]:
    """Draw distinct candidates uniformly.

    Parameters
    ----------
    rng
        The peer's own generator, `me.rng`.
    candidates
        Numbers of peers, (n,).
    count
        How many to draw; all candidates if there are fewer.

    Examples
    --------
    >>> sample_uniformly(np.random.default_rng(0), np.array([1, 2, 3]), 2)
    (2, 3)
    """
    chosen = rng.choice(candidates, size=min(count, len(candidates)), replace=False)
    return tuple(int(peer) for peer in chosen)


@dataclass(frozen=True)
class SamplingProbabilities:
    """A distribution p_i over peers, kept as logarithms so that tiny probabilities still count.

    Parameters
    ----------
    peers
        Numbers of peers, (n,).
    log_probabilities
        ln p_i of each, (n,); −∞ is never drawn before all others.
    rest
        Further peers, with equal probabilities.
    log_rest
        ln p_i of each of them.

    Examples
    --------
    >>> p_i = SamplingProbabilities(np.array([1, 2, 3]), np.log([0.9, 0.09, 0.01]))
    >>> p_i.sample(np.random.default_rng(0), 2)
    (1, 2)
    """

    peers: Peers
    log_probabilities: npt.NDArray[np.float64]
    rest: UnlistedPeers = NO_PEERS
    log_rest: float = -math.inf

    def sample(self, rng: np.random.Generator, count: int) -> tuple[int, ...]:
        """Draw `count` distinct peers, or all if there are fewer, without replacement.

        The Gumbel-top-k trick: the largest of ln p + Gumbel noise have this distribution, also
        where probabilities are too small for floating-point numbers.
        """
        keys = self.log_probabilities + rng.gumbel(size=len(self.peers))
        peers = self.peers
        if len(self.rest):
            # Gumbel noise is −ln of an exponential value: only the largest keys can win.
            largest = self.log_rest - np.log(draw_smallest(rng, len(self.rest), count))
            keys = np.concatenate([keys, largest])
            peers = np.concatenate([peers, self.rest.draw(rng, count)])
        return tuple(peers[np.argsort(-keys, kind="stable")[:count]].tolist())

    def log_probability(self, peer: int) -> float:
        """Return ln p_i(peer)."""
        places = np.flatnonzero(self.peers == peer)
        return float(self.log_probabilities[places[0]]) if len(places) else self.log_rest


def uniform_probabilities(
    peers: npt.NDArray[np.int64], among: npt.NDArray[np.int64]
) -> SamplingProbabilities:
    """Return equal probabilities for some of the peers, and 0 for the others.

    Parameters
    ----------
    peers
        Numbers of all peers, (n,).
    among
        The peers that can be drawn, (k,).

    Examples
    --------
    >>> p_i = uniform_probabilities(np.array([1, 2, 3, 4]), among=np.array([2, 4]))
    >>> np.exp(p_i.log_probabilities)
    array([0. , 0.5, 0. , 0.5])
    """
    chosen = np.isin(peers, among)
    each = -np.log(max(int(np.count_nonzero(chosen)), 1))
    return SamplingProbabilities(peers, np.where(chosen, each, -np.inf))


def softmax_probabilities(
    peers: Peers,
    similarities: npt.NDArray[np.float64],
    tau: float,
    unseen: Unseen = "zero",
    rest: UnlistedPeers = NO_PEERS,
) -> SamplingProbabilities:
    """Return p_i = softmax(τ·s_i) over peers; uniform if no similarity is known.

    Parameters
    ----------
    peers
        Numbers of peers, (n,).
    similarities
        s_i of each, (n,); NaN where unknown.
    tau
        Temperature τ ≥ 0, in units of 1/similarity; 0 samples uniformly.
    unseen
        Peers of unknown similarity. "zero" gives them s = 0 inside the softmax (Listo Zec et al.).
        "epsilon" leaves them out, then adds 1e-6 to all and renormalises (Hagander,
        Ihre-Thomason).
    rest
        Further peers of unknown similarity.

    Examples
    --------
    >>> s_i = np.array([0.1, np.nan, 0.0])
    >>> p_i = softmax_probabilities(np.array([1, 2, 3]), s_i, tau=30.0)
    >>> np.exp(p_i.log_probabilities).round(3)
    array([0.909, 0.045, 0.045])
    """
    unknown = np.isnan(similarities)
    if unknown.all():
        each = -np.log(max(len(peers) + len(rest), 1))
        return SamplingProbabilities(peers, np.full(len(peers), each), rest, each)
    with np.errstate(over="ignore"):
        scaled = np.clip(tau * np.where(unknown, 0.0, similarities), -LARGEST, LARGEST)
    if unseen == "zero":
        known, zero = _log_softmax(scaled, len(rest))
        return SamplingProbabilities(peers, known, rest, zero)
    known, _ = _log_softmax(np.where(unknown, -np.inf, scaled), 0)
    raised = np.exp(known) + EPSILON
    total = raised.sum() + len(rest) * EPSILON
    return SamplingProbabilities(peers, np.log(raised / total), rest, np.log(EPSILON / total))


def _log_softmax(
    values: npt.NDArray[np.float64], num_zeros: int
) -> tuple[npt.NDArray[np.float64], float]:
    """Return log softmax of values, (n,), and of each of a number of further values of 0."""
    # The maximum is subtracted so that nothing overflows.
    highest = max(values.max(), 0.0) if num_zeros else values.max()
    shifted = values - highest
    total = np.exp(shifted).sum()
    if num_zeros:
        total += num_zeros * np.exp(-highest)
    return shifted - np.log(total), float(-highest - np.log(total))
