"""What a peer holds of others: verdicts of its own or told, how old they are, and hearsay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.similarity_table import Values, entries
from coterie.strategies.requests import PEERS, Message, Offer
from coterie.strategies.strategy import Me

VERDICTS = "verdicts"
RANGE = (0.0, 1.0)
"""What a verdict lies between: it is a probability."""
NAMES = ("verdicts", "own", "doubted", "ages", "evidence", "hearsay")
"""What is kept of every peer.

`own` is 1 if I came to the verdict, 0 if I was told it; `doubted` is 1 if its word was found wrong.
"""
UNKNOWN = np.array((np.nan, 0, 0, 0, 0, 0), dtype=[(name, np.float64) for name in NAMES])
"""What is kept of a peer nothing is known about."""
MOST_ODDS = 600.0
"""Log-odds beyond these leave the numbers a double can hold."""


class PeerEvidence:
    """q[j] ∈ [0, 1] for those judged, NaN for all others; and what speaks for or against each.

    Evidence is the log-odds of verdicts. It adds up, and fades as fast as verdicts turned. How fast
    is learnt: f = (1 + verdicts that turned) / (T + rounds they had stood), where T is how many
    rounds it takes to meet everybody once. Where nothing changes, f goes to zero.
    """

    def __init__(self) -> None:
        self._peers = _unknown(0)
        self._most = 0.0
        self._num_turned = 0.0
        self._rounds_stood = 0.0

    def start_round(self, me: Me, period: float, num_samples: int) -> None:
        """A round begins: whatever is known is a round older. `period` is T.

        A verdict by n samples is at best q = √n / (1 + √n): no other counts more, for or against.
        """
        self._make_room(int(me.known.max(initial=-1)))
        self._most = math.log(num_samples) / 2
        self._peers["ages"] += 1
        self._peers["evidence"] *= np.exp(-(1 + self._num_turned) / (period + self._rounds_stood))

    def record_test_results(self, verdicts: Mapping[int, float]) -> None:
        """Take in verdicts of my own, and learn from those that turned."""
        peers, values = _arrays(verdicts)
        self._make_room(int(peers.max(initial=-1)))
        before = self._peers[peers]
        known = ~np.isnan(before["verdicts"])
        has_turned = (values > 0.5) != (before["verdicts"] > 0.5)
        self._num_turned += np.count_nonzero(known & has_turned)
        self._rounds_stood += float(before["ages"][known].sum())
        self._peers["doubted"][peers] = self._doubted(before, values)
        self._put(peers, values, own=True)

    def record_reports(
        self, me: Me, values: Mapping[int, float], tested: Iterable[int] = ()
    ) -> None:
        """Take in what others found of my model: if mine suits them, theirs may suit me.

        What I judged myself in that round stands, and who is doubted is not believed.
        """
        others = set(me.others.tolist()) - set(tested)
        believed = {
            peer: value
            for peer, value in values.items()
            if peer in others and 0 <= value <= 1 and not self._is_doubted(peer)
        }
        self._make_room(max(believed, default=-1))
        self._put(*_arrays(believed), own=False)

    def record_second_hand_results(
        self, me: Me, offers: Iterable[Offer], verdicts: Mapping[int, float]
    ) -> None:
        """h_j = Σ_k [q_k λ^k_j − (1 − q_k) max(λ^k_j, 0)] of log-odds λ, replacing.

        What a peer of my kind finds counts as it says; of whom another kind approves, less so. Who
        is doubted counts for nothing.
        """
        told = [
            offer for offer in offers if offer.peer in verdicts and not self._is_doubted(offer.peer)
        ]
        if not told:
            return
        rows, peers, theirs = self._tables(me, told)
        odds = self._log_odds(theirs)
        trust = np.array([verdicts[offer.peer] for offer in told])[rows]
        found = np.zeros((len(told), len(self._peers)))
        found[rows, peers] = trust * odds - (1 - trust) * np.maximum(odds, 0)
        self._peers["hearsay"][peers] = found.sum(axis=0)[peers]

    def _tables(
        self, me: Me, offers: Sequence[Offer]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Values]:
        """Return who says it (its place among the offers), of whom, and what, (n,) each.

        Whoever tells me about strangers, or about myself, tells me nothing.
        """
        tables = [entries(offer.message, VERDICTS) for offer in offers]
        peers = np.concatenate([peers for peers, _ in tables]).astype(np.int64)
        theirs = np.concatenate([values for _, values in tables]).astype(np.float64)
        rows = np.repeat(np.arange(len(tables)), [len(values) for _, values in tables])
        askable = np.zeros(len(self._peers), dtype=bool)
        askable[me.others] = True
        within = peers.clip(0, len(askable) - 1)
        use = (within == peers) & askable[within] & (theirs >= 0) & (theirs <= 1)
        return rows[use], peers[use], theirs[use]

    def clear(self) -> None:
        """My data have changed: what suited me may not any more."""
        self._peers[:] = UNKNOWN
        self._num_turned = self._rounds_stood = 0.0

    def similarity_probabilities(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return P_j, how likely each peer is of my kind, (n,)."""
        return np.asarray(1 / (1 + np.exp(np.minimum(-self._odds(peers), MOST_ODDS))))

    def is_surely_similar(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return of whom more is known than any verdict says: P_j ≥ n/(1 + n), log-odds ≥ ln n.

        No single verdict by n samples speaks for more than half of that.
        """
        return np.asarray(self._odds(peers) >= 2 * self._most)

    def _odds(self, peers: npt.NDArray[np.int64]) -> Values:
        """ln P_j/(1 − P_j) = ln π/(1 − π) + evidence + hearsay.

        π = (1 + Σq) / (2 + #known) is the share of my kind that was found so far.
        """
        verdicts = self._peers["verdicts"]
        known = verdicts[~np.isnan(verdicts)]
        share = (1 + known.sum()) / (2 + len(known))
        asked = self._peers[peers]
        return np.asarray(math.log(share / (1 - share)) + asked["evidence"] + asked["hearsay"])

    def test_results(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return the verdicts on peers; NaN where there is none."""
        return np.asarray(self._rows(peers)["verdicts"])

    def is_own_result(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether I came to the verdicts on peers myself."""
        return np.asarray(self._rows(peers)["own"] > 0)

    def similar_peers(self) -> npt.NDArray[np.int64]:
        """Return those I hold to be of my kind."""
        return np.flatnonzero(self._peers["verdicts"] > 0.5)

    def message(self) -> Message:
        """Return my verdicts, as they travel with my model."""
        verdicts = self._peers["verdicts"]
        known = np.flatnonzero(~np.isnan(verdicts))
        return {PEERS: known, VERDICTS: verdicts[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            **{name: self._peers[name].copy() for name in NAMES},
            "turned": [self._num_turned, self._rounds_stood],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._peers = _unknown(len(saved[NAMES[0]]))
        for name in NAMES:
            self._peers[name] = saved[name]
        self._num_turned, self._rounds_stood = saved["turned"]

    def _doubted(self, before: npt.NDArray[np.void], verdicts: Values) -> npt.NDArray[np.bool_]:
        """Doubt who told me that my model suits it, and whose model surely does not suit me.

        Honest peers of my kind are like each other, strangers unlike; who gives out another model
        than it works with likes mine, whatever I find. It is trusted again once its model suits me.
        Surely: no verdict by so many samples could speak more against it.
        """
        told = (before["own"] == 0) & (before["verdicts"] > 0.5)
        wrong = told & (self._log_odds(verdicts) <= -self._most)
        return np.asarray(wrong | ((before["doubted"] > 0) & (verdicts <= 0.5)))

    def _is_doubted(self, peer: int) -> bool:
        return peer < len(self._peers) and bool(self._peers[peer]["doubted"])

    def _put(self, peers: npt.NDArray[np.int64], verdicts: Values, *, own: bool) -> None:
        self._peers["verdicts"][peers] = verdicts
        self._peers["own"][peers] = own
        self._peers["ages"][peers] = 0.0
        self._peers["evidence"][peers] += self._log_odds(verdicts)

    def _log_odds(self, verdicts: Values) -> Values:
        with np.errstate(divide="ignore"):  # what is certain has infinite odds
            odds = np.log(verdicts) - np.log1p(-verdicts)
        return np.asarray(np.minimum(np.maximum(odds, -self._most), self._most))

    def _rows(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return what is kept of peers, of whom some may never have been heard of."""
        rows = _unknown(len(peers))
        inside = peers < len(self._peers)
        rows[inside] = self._peers[peers[inside]]
        return rows

    def _make_room(self, highest: int) -> None:
        missing = highest + 1 - len(self._peers)
        if missing > 0:
            self._peers = np.concatenate([self._peers, _unknown(missing)])


def _unknown(count: int) -> npt.NDArray[np.void]:
    """Return so many peers nothing is known about, (count,)."""
    return np.full(count, UNKNOWN)


def _arrays(verdicts: Mapping[int, float]) -> tuple[npt.NDArray[np.int64], Values]:
    """Return peers and what was found of each, (n,) and (n,)."""
    return np.array(list(verdicts), np.int64), np.array(list(verdicts.values()), np.float64)
