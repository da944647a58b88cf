"""Draws from very many peers of which nothing is known, without a list of them.

In a large network a peer knows something about few others. All the others are alike, so the draw
needs only their number. Its cost depends on how many are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.strategies.strategy import Me, Peers


@dataclass(frozen=True)
class UnlistedPeers:
    """Known peers without some: a set that can be drawn from, and that is never written out.

    Parameters
    ----------
    known
        Numbers of peers, (n,), ascending.
    left_out
        Places in `known` that do not belong to the set, ascending.

    Examples
    --------
    >>> peers = UnlistedPeers(np.arange(1_000_000), left_out=np.array([0, 7]))
    >>> len(peers)
    999998
    >>> len(peers.draw(np.random.default_rng(0), 3))
    3
    """

    known: Peers
    left_out: npt.NDArray[np.int64]

    @classmethod
    def of(cls, me: Me, without: Peers) -> UnlistedPeers:
        """Return all others but some."""
        return cls(me.known, np.unique(me.places_in_known(np.append(without, me.peer))))

    def __len__(self) -> int:
        return len(self.known) - len(self.left_out)

    def draw(self, rng: np.random.Generator, count: int) -> Peers:
        """Return distinct peers of the set in random order, (count,); all if there are fewer."""
        ranks = rng.choice(len(self), size=min(count, len(self)), replace=False)
        # Before the i-th place that is left out, there are so many places that are not:
        ranks_before = self.left_out - np.arange(len(self.left_out))
        drawn: Peers = self.known[ranks + ranks_before.searchsorted(ranks, side="right")]
        return drawn


NO_PEERS = UnlistedPeers(np.zeros(0, np.int64), np.zeros(0, np.int64))


def sample_others(me: Me, count: int, without: Peers | None = None) -> tuple[int, ...]:
    """Draw distinct other peers uniformly, in a time that does not depend on their number.

    The draw is that of `sample_uniformly(me.rng, me.others, count)`, without a list of all others.

    Parameters
    ----------
    me
        The peer that draws.
    count
        How many to draw; all others if there are fewer.
    without
        Peers that are not drawn, (n,).

    Examples
    --------
    >>> me = Me(peer=0, round=1, known=np.arange(5), num_samples=10, rng=np.random.default_rng(0))
    >>> sample_others(me, 2)
    (3, 4)
    >>> sample_others(me, 2, without=np.array([1, 3]))
    (4, 2)
    """
    nobody = np.zeros(0, np.int64)
    others = UnlistedPeers.of(me, nobody if without is None else without)
    return tuple(others.draw(me.rng, count).tolist())


def divide_others(me: Me, peers: Peers) -> tuple[Peers, UnlistedPeers]:
    """Divide all others into those to list, (n,), and those of which nothing is known.

    Up to `MOST_LISTED` known peers all others are listed: so small networks keep the draws that
    published runs have, and a larger one needs no list of all peers for each peer.

    Parameters
    ----------
    me
        The peer that draws.
    peers
        The peers that it knows something about, ascending.

    Examples
    --------
    >>> me = Me(peer=0, round=1, known=np.arange(5), num_samples=10, rng=np.random.default_rng(0))
    >>> peers, rest = divide_others(me, np.array([2]))
    >>> peers, len(rest)
    (array([1, 2, 3, 4]), 0)
    >>> many = Me(peer=0, round=1, known=np.arange(5000), num_samples=10, rng=me.rng)
    >>> peers, rest = divide_others(many, np.array([2]))
    >>> peers, len(rest)
    (array([2]), 4998)
    """
    if me.lists_all_others:
        return me.others, NO_PEERS
    return peers[me.is_other(peers)], UnlistedPeers.of(me, peers)


def draw_smallest(rng: np.random.Generator, total: int, count: int) -> npt.NDArray[np.float64]:
    """Draw the smallest of many values that are exponentially distributed, without the others.

    Parameters
    ----------
    rng
        The peer's own generator.
    total
        How many values there are, of mean 1 each.
    count
        How many of the smallest to return; all if there are fewer.

    Returns
    -------
    array
        (count,), ascending.

    Examples
    --------
    >>> draw_smallest(np.random.default_rng(0), total=1_000_000, count=2).round(8)
    array([6.8e-07, 1.7e-06])

    References
    ----------
    Rényi, "On the theory of order statistics", 1953: the i-th gap has the mean 1 / (total − i).
    """
    places = np.arange(min(count, total))
    return np.cumsum(rng.standard_exponential(len(places)) / (total - places))
