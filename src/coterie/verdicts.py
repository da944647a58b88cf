"""What a peer holds of others: verdicts of its own or told, how old they are, and hearsay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.base import PEERS, Me, Message, Offer
from coterie.tables import Values, entries

VERDICTS = "verdicts"
NAMES = ("verdicts", "ages", "for_hearsay", "against_hearsay")


class VerdictTable:
    """q[j] ∈ [0, 1] for those judged, NaN for all others; verdicts fade as fast as they turned.

    How fast is learnt: f = (1 + verdicts that turned) / (T + rounds they had stood), where T is how
    many rounds it takes to meet everybody once. Where nothing changes, f goes to zero.
    """

    def __init__(self) -> None:
        self._verdicts: Values = np.zeros(0)
        self._ages: Values = np.zeros(0)
        self._for: Values = np.zeros(0)
        self._against: Values = np.zeros(0)
        self._num_turned = 0.0
        self._rounds_stood = 0.0

    def grow_older(self, me: Me) -> None:
        """A round begins: whatever is known is a round older."""
        self._make_room(int(me.known.max(initial=-1)))
        self._ages += 1

    def judged(self, verdicts: Mapping[int, float]) -> None:
        """Take in verdicts of my own, and learn from those that turned."""
        for peer, verdict in verdicts.items():
            self._make_room(peer)
            before = self._verdicts[peer]
            if not np.isnan(before):
                self._num_turned += (verdict > 0.5) != (before > 0.5)
                self._rounds_stood += self._ages[peer]
            self._put(peer, verdict)

    def told(self, me: Me, values: Mapping[int, float], judged: Iterable[int] = ()) -> None:
        """Take in what others found of my model: if mine suits them, theirs may suit me.

        What I judged myself in that round stands.
        """
        others = set(me.others.tolist()) - set(judged)
        for peer, value in values.items():
            if peer in others and 0 <= value <= 1:
                self._make_room(peer)
                self._put(peer, value)

    def heard(self, me: Me, offers: Iterable[Offer], verdicts: Mapping[int, float]) -> None:
        """a_j = Σ_k q_k q^k_j and b_j = Σ_k [q_k (1 − q^k_j) + (1 − q_k) q^k_j], replacing.

        What a peer of my kind finds counts as it says; of whom another kind approves, less so.
        """
        size = len(self._verdicts)
        askable = np.zeros(size, dtype=bool)
        askable[me.others] = True
        sums, mentioned = np.zeros((2, size)), np.zeros(size, dtype=bool)
        for offer in offers:
            if offer.peer not in verdicts:
                continue
            peers, theirs = entries(offer.message, VERDICTS)
            within = np.clip(peers, 0, size - 1)
            use = (within == peers) & askable[within] & (theirs >= 0) & (theirs <= 1)
            peers, theirs, trust = peers[use], theirs[use], verdicts[offer.peer]
            sums[0, peers] += trust * theirs
            sums[1, peers] += trust * (1 - theirs) + (1 - trust) * theirs
            mentioned[peers] = True
        self._for[mentioned], self._against[mentioned] = sums[:, mentioned]

    def forget(self) -> None:
        """My data have changed: what suited me may not any more."""
        for values in (self._verdicts, self._ages, self._for, self._against):
            values[:] = np.nan if values is self._verdicts else 0.0
        self._num_turned = self._rounds_stood = 0.0

    def evidence(self, peers: npt.NDArray[np.int64], period: float) -> tuple[Values, Values]:
        """Return a_j and b_j of a Beta distribution for each peer, (n,) each.

        The prior weighs as much as two verdicts, at the share π = (1 + Σq) / (2 + #known) that was
        found so far. `period` is T.
        """
        known = self._verdicts[~np.isnan(self._verdicts)]
        share = (1 + known.sum()) / (2 + len(known))
        fading = (1 + self._num_turned) / (period + self._rounds_stood)
        weight = np.exp(-fading * self._ages[peers])
        verdict = self._verdicts[peers]
        mine = np.where(np.isnan(verdict), 0.0, weight * verdict)
        others = np.where(np.isnan(verdict), 0.0, weight * (1 - verdict))
        return (
            2 * share + mine + self._for[peers],
            2 * (1 - share) + others + self._against[peers],
        )

    def of(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return the verdicts on peers; NaN where there is none."""
        found = np.full(len(peers), np.nan)
        inside = peers < len(self._verdicts)
        found[inside] = self._verdicts[peers[inside]]
        return found

    def kin(self) -> npt.NDArray[np.int64]:
        """Return those I hold to be of my kind."""
        return np.flatnonzero(self._verdicts > 0.5)

    def message(self) -> Message:
        """Return my verdicts, as they travel with my model."""
        known = np.flatnonzero(~np.isnan(self._verdicts))
        return {PEERS: known, VERDICTS: self._verdicts[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        arrays = (self._verdicts, self._ages, self._for, self._against)
        return {
            **dict(zip(NAMES, arrays, strict=True)),
            "turned": [self._num_turned, self._rounds_stood],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        arrays = (np.array(saved[name], dtype=np.float64) for name in NAMES)
        self._verdicts, self._ages, self._for, self._against = arrays
        self._num_turned, self._rounds_stood = saved["turned"]

    def _put(self, peer: int, verdict: float) -> None:
        self._verdicts[peer] = verdict
        self._ages[peer] = 0.0

    def _make_room(self, highest: int) -> None:
        missing = highest + 1 - len(self._verdicts)
        if missing > 0:
            nothing = np.zeros(missing)
            self._verdicts = np.concatenate([self._verdicts, np.full(missing, np.nan)])
            self._ages = np.concatenate([self._ages, nothing])
            self._for = np.concatenate([self._for, nothing])
            self._against = np.concatenate([self._against, nothing])
