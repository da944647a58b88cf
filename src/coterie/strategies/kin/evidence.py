"""Kin's evidence: test results, own and reported, how old they are, and second-hand results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.strategies.parts.peer_rows import PeerRows
from coterie.strategies.parts.similarity_table import Values, read_table
from coterie.strategies.requests import PEERS, Message, Offer
from coterie.strategies.strategy import Me, Peers

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
    >>> table.start_round(period=3.0, num_samples=100)
    >>> table.record_test_results({1: 0.9, 2: 0.1})
    >>> table.similarity_probabilities(me.others).round(3)
    array([0.9, 0.1, 0.5])
    >>> table.similar_peers()
    array([1])
    """

    def __init__(self) -> None:
        self._rows = PeerRows(UNKNOWN)
        self._most = 0.0
        self._num_changed = 0.0
        self._rounds_stood = 0.0

    @property
    def peers(self) -> Peers:
        """The peers that something is known about, (n,), ascending."""
        return self._rows.peers

    def start_round(self, period: float, num_samples: int) -> None:
        """Age all results by a round, and let the evidence fade.

        Parameters
        ----------
        period
            T, in rounds.
        num_samples
            n, the number of validation samples. The best result that n samples can give is
            q = √n / (1 + √n), so no λ is beyond ±ln(n)/2.
        """
        self._most = math.log(num_samples) / 2
        values = self._rows.values
        values["age"] += 1
        values["evidence"] *= np.exp(-(1 + self._num_changed) / (period + self._rounds_stood))

    def record_test_results(self, results: Mapping[int, float]) -> None:
        """Record {peer: q} of own tests, and learn how often results change."""
        peers, values = _arrays(results)
        places = self._rows.list_peers(peers)
        before = self._rows.values[places]
        known = ~np.isnan(before["result"])
        has_changed = (values > 0.5) != (before["result"] > 0.5)
        self._num_changed += np.count_nonzero(known & has_changed)
        self._rounds_stood += float(before["age"][known].sum())
        self._rows.values["is_distrusted"][places] = self._distrusted(before, values)
        self._record(places, values, is_own=True)

    def record_reports(
        self, me: Me, reports: Mapping[int, float], tested: Iterable[int] = ()
    ) -> None:
        """Record {peer: q} that peers reported of this peer's model, as results on theirs.

        Reports of distrusted peers are ignored, and of peers `tested` in the same round.
        """
        skipped = set(tested)
        told = {peer: value for peer, value in reports.items() if peer not in skipped}
        peers, values = _arrays(told)
        accepted = me.is_other(peers) & (values >= 0) & (values <= 1)
        accepted &= ~self._is_distrusted(peers)
        self._record(self._rows.list_peers(peers[accepted]), values[accepted], is_own=False)

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
        fetched = [offer for offer in offers if offer.peer in results]
        is_distrusted = self._is_distrusted(np.array([offer.peer for offer in fetched], np.int64))
        trusted = list(compress(fetched, ~is_distrusted))
        if not trusted:
            return
        rows, peers, theirs = self._read_tables(me, trusted)
        odds = self._log_odds(theirs)
        own = np.array([results[offer.peer] for offer in trusted])[rows]
        named, columns = np.unique(peers, return_inverse=True)
        found = np.zeros((len(trusted), len(named)))
        found[rows, columns] = own * odds - (1 - own) * np.maximum(odds, 0)
        places = self._rows.list_peers(named)
        # Added in the order of the offers: for a single column np.sum may have another order.
        self._rows.values["second_hand"][places] = sum(found)

    def _read_tables(
        self, me: Me, offers: Sequence[Offer]
    ) -> tuple[npt.NDArray[np.int64], Peers, Values]:
        """Return the entries of all tables: place of the offer, peer, and result, (n,) each.

        Entries about unknown peers and about this peer are left out.
        """
        tables = [read_table(offer.message, RESULTS) for offer in offers]
        peers = np.concatenate([peers for peers, _ in tables]).astype(np.int64)
        theirs = np.concatenate([values for _, values in tables]).astype(np.float64)
        rows = np.repeat(np.arange(len(tables)), [len(values) for _, values in tables])
        use = me.is_other(peers) & (theirs >= 0) & (theirs <= 1)
        return rows[use], peers[use], theirs[use]

    def clear(self) -> None:
        """Forget everything, because this peer's data have changed."""
        self._rows.clear()
        self._num_changed = self._rounds_stood = 0.0

    def similarity_probabilities(self, peers: Peers) -> Values:
        """Return P_j, the probability that each peer is similar, (n,)."""
        return np.asarray(1 / (1 + np.exp(np.minimum(-self._odds(peers), MOST_ODDS))))

    def is_surely_similar(self, peers: Peers) -> npt.NDArray[np.bool_]:
        """Return which peers have P_j ≥ n/(1 + n), (n,): log-odds of at least ln n.

        That is twice what the best single test result contributes.
        """
        return np.asarray(self._odds(peers) >= 2 * self._most)

    def share_of_similar(self) -> float:
        """Return π = (1 + Σq) / (2 + number of results), the P_j of all peers not in `peers`.

        It is the share of similar peers found so far.
        """
        results = self._rows.values["result"]
        known = results[~np.isnan(results)]
        return float((1 + known.sum()) / (2 + len(known)))

    def _odds(self, peers: Peers) -> Values:
        """Return ln P_j/(1 − P_j) = ln π/(1 − π) + Λ_j + second-hand evidence."""
        share = self.share_of_similar()
        asked = self._rows.of(peers)
        return np.asarray(math.log(share / (1 - share)) + asked["evidence"] + asked["second_hand"])

    def test_results(self, peers: Peers) -> Values:
        """Return the latest results on peers, (n,); NaN where there is none."""
        return np.asarray(self._rows.of(peers)["result"])

    def is_own_result(self, peers: Peers) -> npt.NDArray[np.bool_]:
        """Return which of the latest results come from own tests, (n,)."""
        return np.asarray(self._rows.of(peers)["is_own"] > 0)

    def similar_peers(self) -> Peers:
        """Return the peers with a latest result above ½."""
        return self._rows.peers[self._rows.values["result"] > 0.5]

    def message(self) -> Message:
        """Return the latest results, to travel with the model."""
        results = self._rows.values["result"]
        known = ~np.isnan(results)
        return {PEERS: self._rows.peers[known], RESULTS: results[known]}

    def save(self) -> dict[str, Any]:
        """Return the table as plain data."""
        turned = [self._num_changed, self._rounds_stood]
        return {**self._rows.save(SAVED_NAMES), "turned": turned}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self._rows.restore(saved, SAVED_NAMES)
        if PEERS not in saved:  # earlier versions saved a row for every peer
            rows = self._rows.values
            is_known = ~np.isnan(rows["result"]) | (rows["second_hand"] != 0)
            self._rows.keep(is_known)
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

    def _is_distrusted(self, peers: Peers) -> npt.NDArray[np.bool_]:
        return np.asarray(self._rows.of(peers)["is_distrusted"] > 0)

    def _record(self, places: npt.NDArray[np.int64], results: Values, *, is_own: bool) -> None:
        """Record results in rows that are listed."""
        values = self._rows.values
        values["result"][places] = results
        values["is_own"][places] = is_own
        values["age"][places] = 0.0
        values["evidence"][places] += self._log_odds(results)

    def _log_odds(self, results: Values) -> Values:
        with np.errstate(divide="ignore"):  # 0 and 1 have infinite odds
            odds = np.log(results) - np.log1p(-results)
        return np.asarray(np.minimum(np.maximum(odds, -self._most), self._most))


def _arrays(results: Mapping[int, float]) -> tuple[Peers, Values]:
    """Return peers and their results, (n,) each."""
    return np.array(list(results), np.int64), np.array(list(results.values()), np.float64)
