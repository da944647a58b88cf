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

from coterie.strategies.parts.peer_rows import PeerRows, Rows
from coterie.strategies.parts.sampling import SamplingProbabilities
from coterie.strategies.parts.similarity import LARGEST
from coterie.strategies.requests import PEERS, Message, Offer
from coterie.strategies.strategy import Estimates, Me, Peers

Values: TypeAlias = npt.NDArray[np.float64]
SIMILARITIES = "similarities"
RANGES = {SIMILARITIES: (-LARGEST, LARGEST)}
"""The range of similarities in messages."""
Hops: TypeAlias = Literal["two", "any"]
_UNKNOWN = np.array((np.nan, np.nan), [("measured", np.float64), ("estimated", np.float64)])
_SAVED_NAMES = {name: name for name in ("measured", "estimated")}


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
        self._rows = PeerRows(_UNKNOWN)

    @property
    def peers(self) -> Peers:
        """The peers of known similarity, (n,), ascending."""
        return self._rows.peers

    def record_scores(self, scores: Mapping[int, float]) -> None:
        """Record {peer: similarity} that this peer measured itself."""
        places = self._rows.list_peers(np.array(list(scores), np.int64))
        self._rows.values["measured"][places] = list(scores.values())
        self._rows.values["estimated"][places] = np.nan

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
        scored = [offer for offer in offers if offer.peer in scores]
        # The most similar comes last, so that its entries overwrite the others.
        scored.sort(key=lambda offer: scores[offer.peer])
        tables = [read_table(offer.message, SIMILARITIES) for offer in scored]
        if not tables:
            return
        peers = np.concatenate([peers for peers, _ in tables])
        similarities = np.concatenate([values for _, values in tables])
        # Ignore entries about unknown peers and about this peer.
        use = me.is_other(peers) & np.isfinite(similarities)
        places = self._rows.list_peers(peers[use])
        values = self._rows.values
        values["estimated"][places] = similarities[use]
        values["estimated"][~np.isnan(values["measured"])] = np.nan

    def similarities(self, peers: Peers) -> Values:
        """Return s_i(j) of peers, measured or else estimated, (n,); NaN where unknown."""
        return _best_known(self._rows.of(peers))

    def is_measured(self, peers: Peers) -> npt.NDArray[np.bool_]:
        """Return which of the peers this peer measured itself, (n,)."""
        return np.asarray(~np.isnan(self._rows.of(peers)["measured"]))

    def estimates(self, probabilities: SamplingProbabilities) -> Estimates:
        """Return what is known about the peers of a distribution, with the probability of each."""
        similarities = self.similarities(probabilities.peers)
        (known,) = np.nonzero(~np.isnan(similarities))
        peers = probabilities.peers[known]
        sampled = np.exp(probabilities.log_probabilities[known])
        return Estimates(peers, similarities[known], self.is_measured(peers), sampled)

    def message(self, hops: Hops) -> Message:
        """Return the table for other peers: measurements ("two"), or estimates too ("any")."""
        rows = self._rows.values
        values = rows["measured"] if hops == "two" else _best_known(rows)
        known = ~np.isnan(values)
        return {PEERS: self._rows.peers[known], SIMILARITIES: values[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return self._rows.save(_SAVED_NAMES)

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self._rows.restore(saved, _SAVED_NAMES)
        self._rows.keep(~np.isnan(_best_known(self._rows.values)))


def _best_known(rows: Rows) -> Values:
    """Return the similarity in each row, measured or else estimated, (n,); NaN if neither."""
    return np.where(np.isnan(rows["measured"]), rows["estimated"], rows["measured"])


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
