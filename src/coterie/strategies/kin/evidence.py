"""Kin's evidence: test results, own and reported, how old they are, and second-hand results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.similarity_table import Values, read_table
from coterie.strategies.requests import PEERS, Message, Offer
from coterie.strategies.strategy import Me

RESULTS = "verdicts"
"""The name of test results in messages."""
RANGE = (0.0, 1.0)
"""The range of a test result, which is a probability."""
SAVED_NAMES = {
    "result": "verdicts",
    "is_own": "own",
    "is_distrusted": "doubted",
    "age": "ages",
    "evidence": "evidence",
    "second_hand": "hearsay",
}
"""What is kept of each peer, and its name in checkpoints.

`is_own` is 1 for a result of an own test, 0 for a reported one. `age` is in rounds.
"""
UNKNOWN = np.array((np.nan, 0, 0, 0, 0, 0), dtype=[(name, np.float64) for name in SAVED_NAMES])
"""What is kept of an unknown peer."""
MOST_ODDS = 600.0
"""Bound of log-odds, so that their exponential is a finite double."""


class PeerEvidence:
    """Test results q_j ∈ [0, 1] of peers, and the evidence Λ_j that they are similar.

    Λ_j is the sum of the log-odds λ = ln q/(1−q) of all results on j. It fades by e^(−f) per
    round, as fast as results are observed to change:
    f = (1 + results that changed) / (T + rounds they had stood), where T is the number of rounds
    it takes to fetch from every peer once. Where nothing changes, f approaches 0.

    Examples
    --------
    >>> from coterie.strategies import Me
    >>> me = Me(peer=0, round=1, known=np.arange(4), num_samples=10, rng=np.random.default_rng(0))
    >>> table = PeerEvidence()
    >>> table.start_round(me, period=3.0, num_samples=100)
    >>> table.record_test_results({1: 0.9, 2: 0.1})
    >>> table.similarity_probabilities(me.others).round(3)
    array([0.9, 0.1, 0.5])
    >>> table.similar_peers()
    array([1])
    """

    def __init__(self) -> None:
        self._peers = _unknown(0)
        self._most = 0.0
        self._num_changed = 0.0
        self._rounds_stood = 0.0

    def start_round(self, me: Me, period: float, num_samples: int) -> None:
        """Age all results by a round, and let the evidence fade.

        Parameters
        ----------
        me
            This peer.
        period
            T, in rounds.
        num_samples
            n, the number of validation samples. The best result that n samples can give is
            q = √n / (1 + √n), so no λ is beyond ±ln(n)/2.
        """
        self._extend(int(me.known.max(initial=-1)))
        self._most = math.log(num_samples) / 2
        self._peers["age"] += 1
        self._peers["evidence"] *= np.exp(-(1 + self._num_changed) / (period + self._rounds_stood))

    def record_test_results(self, results: Mapping[int, float]) -> None:
        """Record {peer: q} of own tests, and learn how often results change."""
        peers, values = _arrays(results)
        self._extend(int(peers.max(initial=-1)))
        before = self._peers[peers]
        known = ~np.isnan(before["result"])
        has_changed = (values > 0.5) != (before["result"] > 0.5)
        self._num_changed += np.count_nonzero(known & has_changed)
        self._rounds_stood += float(before["age"][known].sum())
        self._peers["is_distrusted"][peers] = self._distrusted(before, values)
        self._record(peers, values, is_own=True)

    def record_reports(
        self, me: Me, reports: Mapping[int, float], tested: Iterable[int] = ()
    ) -> None:
        """Record {peer: q} that peers reported of this peer's model, as results on theirs.

        Reports of distrusted peers are ignored, and of peers `tested` in the same round.
        """
        others = set(me.others.tolist()) - set(tested)
        accepted = {
            peer: value
            for peer, value in reports.items()
            if peer in others and 0 <= value <= 1 and not self._is_distrusted(peer)
        }
        self._extend(max(accepted, default=-1))
        self._record(*_arrays(accepted), is_own=False)

    def record_second_hand_results(
        self, me: Me, offers: Iterable[Offer], results: Mapping[int, float]
    ) -> None:
        """Record Σ_k [q_k λ^k_j − (1 − q_k) max(λ^k_j, 0)] for the peers j in fetched tables.

        Results of similar peers count as they are. What dissimilar peers find similar, counts
        against j. The sum replaces the one of the last table that named j.

        Parameters
        ----------
        me
            This peer.
        offers
            The fetched models with their tables of results.
        results
            {k: q_k}; tables of peers without a result, or distrusted, are ignored.
        """
        trusted = [
            offer
            for offer in offers
            if offer.peer in results and not self._is_distrusted(offer.peer)
        ]
        if not trusted:
            return
        rows, peers, theirs = self._read_tables(me, trusted)
        odds = self._log_odds(theirs)
        own = np.array([results[offer.peer] for offer in trusted])[rows]
        found = np.zeros((len(trusted), len(self._peers)))
        found[rows, peers] = own * odds - (1 - own) * np.maximum(odds, 0)
        self._peers["second_hand"][peers] = found.sum(axis=0)[peers]

    def _read_tables(
        self, me: Me, offers: Sequence[Offer]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Values]:
        """Return the entries of all tables: place of the offer, peer, and result, (n,) each.

        Entries about unknown peers and about this peer are left out.
        """
        tables = [read_table(offer.message, RESULTS) for offer in offers]
        peers = np.concatenate([peers for peers, _ in tables]).astype(np.int64)
        theirs = np.concatenate([values for _, values in tables]).astype(np.float64)
        rows = np.repeat(np.arange(len(tables)), [len(values) for _, values in tables])
        is_other = np.zeros(len(self._peers), dtype=bool)
        is_other[me.others] = True
        within = peers.clip(0, len(is_other) - 1)
        use = (within == peers) & is_other[within] & (theirs >= 0) & (theirs <= 1)
        return rows[use], peers[use], theirs[use]

    def clear(self) -> None:
        """Forget everything, because this peer's data have changed."""
        self._peers[:] = UNKNOWN
        self._num_changed = self._rounds_stood = 0.0

    def similarity_probabilities(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return P_j, the probability that each peer is similar, (n,)."""
        return np.asarray(1 / (1 + np.exp(np.minimum(-self._odds(peers), MOST_ODDS))))

    def is_surely_similar(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which peers have P_j ≥ n/(1 + n), (n,): log-odds of at least ln n.

        That is twice what the best single test result contributes.
        """
        return np.asarray(self._odds(peers) >= 2 * self._most)

    def _odds(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return ln P_j/(1 − P_j) = ln π/(1 − π) + Λ_j + second-hand evidence.

        π = (1 + Σq) / (2 + number of results) is the share of similar peers found so far.
        """
        results = self._peers["result"]
        known = results[~np.isnan(results)]
        share = (1 + known.sum()) / (2 + len(known))
        asked = self._peers[peers]
        return np.asarray(math.log(share / (1 - share)) + asked["evidence"] + asked["second_hand"])

    def test_results(self, peers: npt.NDArray[np.int64]) -> Values:
        """Return the latest results on peers, (n,); NaN where there is none."""
        return np.asarray(self._rows(peers)["result"])

    def is_own_result(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the latest results come from own tests, (n,)."""
        return np.asarray(self._rows(peers)["is_own"] > 0)

    def similar_peers(self) -> npt.NDArray[np.int64]:
        """Return the peers with a latest result above ½."""
        return np.flatnonzero(self._peers["result"] > 0.5)

    def message(self) -> Message:
        """Return the latest results, to travel with the model."""
        results = self._peers["result"]
        known = np.flatnonzero(~np.isnan(results))
        return {PEERS: known, RESULTS: results[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            **{saved: self._peers[name].copy() for name, saved in SAVED_NAMES.items()},
            "turned": [self._num_changed, self._rounds_stood],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self._peers = _unknown(len(saved[SAVED_NAMES["result"]]))
        for name, saved_name in SAVED_NAMES.items():
            self._peers[name] = saved[saved_name]
        self._num_changed, self._rounds_stood = saved["turned"]

    def _distrusted(self, before: npt.NDArray[np.void], results: Values) -> npt.NDArray[np.bool_]:
        """Distrust a peer that reported similarity if its model is as dissimilar as can be shown.

        Similarity is mutual between honest peers. A peer that publishes another model than its
        own finds this peer's model similar, but not the reverse. It is trusted again once its model
        passes the test.
        """
        reported = (before["is_own"] == 0) & (before["result"] > 0.5)
        contradicted = reported & (self._log_odds(results) <= -self._most)
        return np.asarray(contradicted | ((before["is_distrusted"] > 0) & (results <= 0.5)))

    def _is_distrusted(self, peer: int) -> bool:
        return peer < len(self._peers) and bool(self._peers[peer]["is_distrusted"])

    def _record(self, peers: npt.NDArray[np.int64], results: Values, *, is_own: bool) -> None:
        self._peers["result"][peers] = results
        self._peers["is_own"][peers] = is_own
        self._peers["age"][peers] = 0.0
        self._peers["evidence"][peers] += self._log_odds(results)

    def _log_odds(self, results: Values) -> Values:
        with np.errstate(divide="ignore"):  # 0 and 1 have infinite odds
            odds = np.log(results) - np.log1p(-results)
        return np.asarray(np.minimum(np.maximum(odds, -self._most), self._most))

    def _rows(self, peers: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return what is kept of peers, some of which may be beyond the end."""
        rows = _unknown(len(peers))
        inside = peers < len(self._peers)
        rows[inside] = self._peers[peers[inside]]
        return rows

    def _extend(self, highest: int) -> None:
        missing = highest + 1 - len(self._peers)
        if missing > 0:
            self._peers = np.concatenate([self._peers, _unknown(missing)])


def _unknown(count: int) -> npt.NDArray[np.void]:
    """Return a table of unknown peers, (count,)."""
    return np.full(count, UNKNOWN)


def _arrays(results: Mapping[int, float]) -> tuple[npt.NDArray[np.int64], Values]:
    """Return peers and their results, (n,) each."""
    return np.array(list(results), np.int64), np.array(list(results.values()), np.float64)
