"""The similarity table of a peer: its own measurements, and two-hop estimates, kept apart.

References
----------
Listo Zec et al., "Decentralized adaptive clustering of deep nets is beneficial for client
collaboration", 2022. Section 3 (two-hop estimates).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.sampling import SamplingProbabilities
from coterie.strategies.parts.similarity import LARGEST
from coterie.strategies.requests import PEERS, Message, Offer
from coterie.strategies.strategy import Estimates, Me

Values: TypeAlias = npt.NDArray[np.float64]
SIMILARITIES = "similarities"
RANGES = {SIMILARITIES: (-LARGEST, LARGEST)}
"""The range of similarities in messages."""
Hops: TypeAlias = Literal["two", "any"]


class SimilarityTable:
    """s_i(j) for the peers j that peer i knows something about; NaN for all others.

    An estimate never overwrites a measurement. A newer estimate replaces an older one.

    Examples
    --------
    The worked example of Listo Zec et al.: peer 0 measures peers 1 and 2, and estimates peers 3
    and 4 from their tables. Peer 2 is the most similar that knows 3.

    >>> from coterie.strategies import Me, Offer
    >>> me = Me(peer=0, round=1, known=np.arange(6), num_samples=10, rng=np.random.default_rng(0))
    >>> table = SimilarityTable()
    >>> table.record_scores({1: 1.0, 2: 10.0})
    >>> one = {"peers": np.array([3]), "similarities": np.array([8.0])}
    >>> two = {"peers": np.array([3, 4]), "similarities": np.array([2.0, 4.0])}
    >>> table.record_two_hop_estimates(me, [Offer(1, 10, one), Offer(2, 10, two)], {1: 1, 2: 10})
    >>> table.similarities(np.array([1, 2, 3, 4, 5]))
    array([ 1., 10.,  2.,  4., nan])
    """

    def __init__(self) -> None:
        self._measured: Values = np.zeros(0)
        self._estimated: Values = np.zeros(0)

    def record_scores(self, scores: Mapping[int, float]) -> None:
        """Record {peer: similarity} that this peer measured itself."""
        self._extend(max(scores, default=-1))
        for peer, score in scores.items():
            self._measured[peer] = score
            self._estimated[peer] = np.nan

    def record_two_hop_estimates(
        self, me: Me, offers: Iterable[Offer], scores: Mapping[int, float]
    ) -> None:
        """Record ŝ_i(j) = s_{k*}(j), where k* is the most similar fetched peer that knows j.

        The paper prints argmin, which is a slip: its own example takes the most similar peer.

        Parameters
        ----------
        me
            This peer i.
        offers
            The fetched models with their tables, s_k.
        scores
            {k: s_i(k)}; tables of peers without a score are ignored.
        """
        self._extend(_highest(me.known))
        is_other = np.zeros(len(self._measured), dtype=bool)
        is_other[me.others] = True
        scored = [offer for offer in offers if offer.peer in scores]
        # The most similar comes last, so that its entries overwrite the others.
        for offer in sorted(scored, key=lambda offer: scores[offer.peer]):
            peers, similarities = read_table(offer.message, SIMILARITIES)
            # Ignore entries about unknown peers and about this peer.
            within = np.clip(peers, 0, len(is_other) - 1)
            use = (within == peers) & is_other[within] & np.isfinite(similarities)
            self._estimated[peers[use]] = similarities[use]
        self._estimated[~np.isnan(self._measured)] = np.nan

    def similarities(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return s_i(j) of peers, measured or else estimated, (n,); NaN where unknown."""
        measured = _at(self._measured, peers)
        return np.where(np.isnan(measured), _at(self._estimated, peers), measured)

    def is_measured(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the peers this peer measured itself, (n,)."""
        return ~np.isnan(_at(self._measured, peers))

    def estimates(self, probabilities: SamplingProbabilities) -> Estimates:
        """Return what is known about the peers of a distribution, with the probability of each."""
        similarities = self.similarities(probabilities.peers)
        (known,) = np.nonzero(~np.isnan(similarities))
        peers = probabilities.peers[known]
        sampled = np.exp(probabilities.log_probabilities[known])
        return Estimates(peers, similarities[known], self.is_measured(peers), sampled)

    def message(self, hops: Hops) -> Message:
        """Return the table for other peers: measurements ("two"), or estimates too ("any")."""
        all_peers = np.arange(len(self._measured))
        values = self._measured if hops == "two" else self.similarities(all_peers)
        known = np.flatnonzero(~np.isnan(values))
        return {PEERS: known, SIMILARITIES: values[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {"measured": self._measured, "estimated": self._estimated}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self._measured = np.array(saved["measured"])
        self._estimated = np.array(saved["estimated"])

    def _extend(self, highest: int) -> None:
        missing = highest + 1 - len(self._measured)
        if missing > 0:
            unknown = np.full(missing, np.nan)
            self._measured = np.concatenate([self._measured, unknown])
            self._estimated = np.concatenate([self._estimated, unknown])


def _highest(peers: npt.NDArray[np.int64]) -> int:
    return int(peers.max(initial=-1))


def _at(values: Values, peers: npt.NDArray[np.int64]) -> Values:
    """Return the values of peers; NaN for peers beyond the end, which are still unknown."""
    if _highest(peers) < len(values):
        return values[peers]
    known = peers < len(values)
    found = np.full(len(peers), np.nan)
    found[known] = values[peers[known]]
    return found


def read_table(message: Message, name: str) -> tuple[npt.NDArray[np.int64], Values]:
    """Return the peers and the numbers of a table in a message; both empty if it has none.

    Parameters
    ----------
    message
        What came with another peer's model; nothing in it is trusted.
    name
        The array of the message that holds the numbers.

    Examples
    --------
    >>> read_table({"peers": np.array([3]), "similarities": np.array([0.5])}, "similarities")
    (array([3]), array([0.5]))
    >>> read_table({}, "similarities")
    (array([], dtype=int64), array([], dtype=float64))
    """
    peers, values = message.get(PEERS), message.get(name)
    if (
        peers is None
        or values is None
        or peers.ndim != 1
        or peers.shape != values.shape
        or peers.dtype.kind != "i"
        or values.dtype.kind != "f"
    ):
        return np.zeros(0, np.int64), np.zeros(0)
    return peers, values
