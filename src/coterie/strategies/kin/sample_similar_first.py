"""Kin's sample: peers drawn as similar come first, the others fill the places that are left."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.unlisted_peers import NO_PEERS, UnlistedPeers, draw_smallest
from coterie.strategies.strategy import Peers


def sample_similar_first(
    rng: np.random.Generator,
    peers: Peers,
    probabilities: npt.NDArray[np.float64],
    count: int,
    rest: UnlistedPeers = NO_PEERS,
    rest_probability: float = 0.5,
) -> tuple[int, ...]:
    """Sample peers: first those drawn as similar, each with its probability P_j.

    Among the drawn, and among the others, peers are drawn in proportion to P_j.

    Parameters
    ----------
    rng
        The peer's own generator.
    peers, probabilities
        Numbers of peers, and P_j > 0 of each, (n,).
    count
        How many to sample; all if there are fewer.
    rest, rest_probability
        Further peers, and the P_j > 0 that they all have. They take a time that does not depend on
        their number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sample_similar_first(rng, np.array([1, 2, 3]), np.array([0.9, 1e-9, 0.9]), 2)
    (1, 3)

    References
    ----------
    Efraimidis, Spirakis, "Weighted random sampling with a reservoir", 2006: the highest ln(u)/P.
    """
    is_drawn = rng.random(len(peers)) < probabilities
    keys = np.log(1 - rng.random(len(peers))) / probabilities
    if len(rest):
        num_drawn = int(rng.binomial(len(rest), rest_probability))
        # −ln(u) is exponential, and only the smallest of these values can win.
        drawn, others = (
            draw_smallest(rng, total, count) for total in (num_drawn, len(rest) - num_drawn)
        )
        is_drawn = np.concatenate([is_drawn, np.arange(len(drawn) + len(others)) < len(drawn)])
        keys = np.concatenate([keys, -np.concatenate([drawn, others]) / rest_probability])
        peers = np.concatenate([peers, rest.draw(rng, len(drawn) + len(others))])
    order = np.lexsort((-keys, ~is_drawn))
    return tuple(peers[order[:count]].tolist())
