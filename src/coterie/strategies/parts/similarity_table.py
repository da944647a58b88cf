"""A peer's similarity table: what I measured and what I was told, never mixed up."""

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
"""What the similarities lie between that travel with a model."""
Hops: TypeAlias = Literal["two", "any"]


class SimilarityTable:
    """s_i(j) for the peers j that peer i knows something about; NaN for all others.

    A measurement is never overwritten by an estimate; an estimate is refreshed by newer ones.
    """

    def __init__(self) -> None:
        self._measured: Values = np.zeros(0)
        self._estimated: Values = np.zeros(0)

    def record_scores(self, scores: Mapping[int, float]) -> None:
        """Take in what I measured myself."""
        self._make_room(max(scores, default=-1))
        for peer, score in scores.items():
            self._measured[peer] = score
            self._estimated[peer] = np.nan

    def record_two_hop_estimates(
        self, me: Me, offers: Iterable[Offer], scores: Mapping[int, float]
    ) -> None:
        """Two-hop estimates: ŝ_i(j) = s_{k*}(j), k* the most similar fetched peer that knows j.

        The paper prints argmin, which is a slip: its own example takes the most similar.
        """
        self._make_room(_highest(me.known))
        askable = np.zeros(len(self._measured), dtype=bool)
        askable[me.others] = True
        told = [offer for offer in offers if offer.peer in scores]
        # The most similar comes last, so that its word stands.
        for offer in sorted(told, key=lambda offer: scores[offer.peer]):
            peers, similarities = entries(offer.message, SIMILARITIES)
            # Whoever tells me about strangers, or about myself, tells me nothing.
            within = np.clip(peers, 0, len(askable) - 1)
            use = (within == peers) & askable[within] & np.isfinite(similarities)
            self._estimated[peers[use]] = similarities[use]
        self._estimated[~np.isnan(self._measured)] = np.nan

    def similarities(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return s_i(j) of the given peers, measured or else estimated; NaN where unknown."""
        measured = _at(self._measured, peers)
        return np.where(np.isnan(measured), _at(self._estimated, peers), measured)

    def is_measured(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the peers I measured myself."""
        return ~np.isnan(_at(self._measured, peers))

    def estimates(self, chances: SamplingProbabilities) -> Estimates:
        """Return what I know about the peers I choose from, with the chance of each."""
        similarities = self.similarities(chances.peers)
        (known,) = np.nonzero(~np.isnan(similarities))
        peers = chances.peers[known]
        probabilities = np.exp(chances.log_probabilities[known])
        return Estimates(peers, similarities[known], self.is_measured(peers), probabilities)

    def message(self, hops: Hops) -> Message:
        """Return what is passed on: my measurements ("two"), or estimates as well ("any")."""
        everybody = np.arange(len(self._measured))
        values = self._measured if hops == "two" else self.similarities(everybody)
        known = np.flatnonzero(~np.isnan(values))
        return {PEERS: known, SIMILARITIES: values[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {"measured": self._measured, "estimated": self._estimated}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._measured = np.array(saved["measured"])
        self._estimated = np.array(saved["estimated"])

    def _make_room(self, highest: int) -> None:
        missing = highest + 1 - len(self._measured)
        if missing > 0:
            unknown = np.full(missing, np.nan)
            self._measured = np.concatenate([self._measured, unknown])
            self._estimated = np.concatenate([self._estimated, unknown])


def _highest(peers: npt.NDArray[np.int64]) -> int:
    return int(peers.max(initial=-1))


def _at(values: Values, peers: npt.NDArray[np.int64]) -> Values:
    """Return the values of peers; NaN for those beyond the end, of whom nothing is known yet."""
    if _highest(peers) < len(values):
        return values[peers]
    known = peers < len(values)
    found = np.full(len(peers), np.nan)
    found[known] = values[peers[known]]
    return found


def entries(message: Message, name: str) -> tuple[npt.NDArray[np.int64], Values]:
    """Return whom a message tells about and what, under a name; nothing if it is no such table."""
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
