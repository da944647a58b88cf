"""Kin's evidence: it adds up and fades; reports, second-hand results and distrust."""

import math

import numpy as np
import pytest
from kin_parts import me, offer

from coterie.strategies.kin.evidence import PeerEvidence
from coterie.strategies.requests import Offer

PERIOD, MANY = 5.0, 10_000


def odds(probability):
    """Return the log-odds of a probability."""
    return math.log(probability / (1 - probability))


def later(table, rounds=1, num_samples=MANY):
    for _ in range(rounds):
        table.start_round(PERIOD, num_samples)
    return table


def table_of(results=None):
    table = later(PeerEvidence())
    table.record_test_results(results or {})
    return table


def evidence(table, peer=1):
    """Return the evidence for a peer without the prior, in log-odds."""
    (probability,) = table.similarity_probabilities(np.array([peer]))
    known = table.message()["verdicts"]
    return odds(probability) - odds((1 + known.sum()) / (2 + len(known)))


def test_the_prior_is_the_share_found_so_far():
    table = table_of({1: 0.9, 2: 0.1, 3: 0.2})
    share = (1 + 1.2) / (2 + 3)
    unknown, known = table.similarity_probabilities(np.array([4, 1]))
    assert unknown == pytest.approx(share)
    assert odds(known) == pytest.approx(odds(share) + odds(0.9))


@pytest.mark.parametrize("num_samples", [10, 100, 1000])
def test_surely_similar_takes_more_than_any_single_result(num_samples):
    """From P = n/(1 + n) on, which takes the prior or a second result besides the best one."""
    table = later(PeerEvidence(), num_samples=num_samples)
    peers = np.arange(1, 6)
    best = math.sqrt(num_samples) / (1 + math.sqrt(num_samples))
    seen = set()
    for _ in range(4):
        surely = table.is_surely_similar(peers)
        np.testing.assert_array_equal(
            surely, table.similarity_probabilities(peers) >= num_samples / (1 + num_samples) - 1e-12
        )
        seen.add(tuple(surely))
        table.record_test_results({1: 0.999999, 2: best, 3: 0.5, 4: 0.01})
    assert {(False,) * 5, (True, True, False, False, False)} <= seen


class TestEvidence:
    def test_it_adds_up_and_fades_by_hand(self):
        table = table_of({1: 0.9})
        assert evidence(table) == pytest.approx(odds(0.9))
        later(table)  # nothing has changed in no round: f = 1/5
        expected = odds(0.9) * math.exp(-1 / 5)
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.8})  # it had stood for a round: f = 1/6
        expected += odds(0.8)
        assert evidence(table) == pytest.approx(expected)
        later(table, 2)
        expected *= math.exp(-2 / 6)
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.3})  # it has changed, after two rounds more: f = 2/8
        expected += odds(0.3)
        later(table)
        assert evidence(table) == pytest.approx(expected * math.exp(-2 / 8))

    def test_a_result_on_the_same_side_of_one_half_has_not_changed(self):
        table = table_of({1: 0.9})
        table.record_test_results({1: 0.6})
        later(table)
        assert evidence(table) == pytest.approx((odds(0.9) + odds(0.6)) * math.exp(-1 / 5))

    @pytest.mark.parametrize("certain", [0.0, 1.0])
    def test_no_result_counts_more_than_the_best_possible_one(self, certain):
        """By 16 samples that is q = 4/5."""
        table = later(PeerEvidence(), num_samples=16)
        table.record_test_results({1: certain})
        table.record_second_hand_results(me(), [offer(1, {2: certain})], {1: 1.0})
        sign = 1 if certain else -1
        assert evidence(table, 1) == pytest.approx(sign * odds(0.8))
        assert evidence(table, 2) == pytest.approx(sign * odds(0.8))

    def test_the_evidence_of_other_peers_stays(self):
        table = table_of({1: 0.9, 2: 0.4})
        table.record_test_results({1: 0.9})
        assert evidence(table, 2) == pytest.approx(odds(0.4))
        assert evidence(table, 3) == pytest.approx(0)

    def test_the_newest_result_is_the_result(self):
        table = table_of({1: 0.9})
        table.record_test_results({1: 0.2})
        assert table.test_results(np.array([1])).tolist() == [0.2]
        assert table.message()["verdicts"].tolist() == [0.2]
        assert table.similar_peers().tolist() == []

    def test_evidence_fades_more_slowly_where_results_last(self):
        unproven, proven = table_of({1: 0.9}), table_of({1: 0.9, 2: 0.9})
        for _ in range(30):
            proven.record_test_results({2: 0.9, 3: 0.1})
            later(proven)
            later(unproven)
        assert evidence(unproven) < 0.01 < 0.1 < evidence(proven)

    def test_second_hand_results_do_not_fade(self):
        table = table_of()
        table.record_second_hand_results(me(), [offer(2, {1: 0.9})], {2: 1.0})
        assert evidence(later(table, 50)) == pytest.approx(odds(0.9))

    def test_any_amount_of_evidence_gives_a_probability(self):
        table = table_of({1: 0.9})
        for _ in range(1000):
            table.record_test_results({1: 1.0, 2: 0.0})
        probabilities = table.similarity_probabilities(np.array([1, 2]))
        assert probabilities[0] == 1.0
        assert 0 < probabilities[1] < 1e-200


class TestReports:
    def test_a_report_counts_unless_the_peer_was_tested(self):
        table = table_of({1: 0.1})
        table.record_reports(
            me(), {1: 0.9, 2: 0.8, 0: 1.0, 77: 1.0, 3: 2.0, 4: math.nan}, tested=[1]
        )
        assert table.test_results(np.array([1, 2])).tolist() == [0.1, 0.8]
        assert np.isnan(table.test_results(np.array([0, 3, 4, 77]))).all()
        assert evidence(table, 1) == pytest.approx(odds(0.1))
        assert evidence(table, 2) == pytest.approx(odds(0.8))

    def test_own_results_are_known_as_such(self):
        table = table_of({1: 0.9, 2: 0.9})
        table.record_reports(me(), {2: 0.8, 3: 0.7})
        peers = np.array([1, 2, 3, 4, 999])
        assert table.is_own_result(peers).tolist() == [True, False, False, False, False]
        table.record_test_results({2: 0.1})
        assert table.is_own_result(peers).tolist() == [True, True, False, False, False]

    def test_a_report_adds_up_but_does_not_count_as_a_change(self):
        table = table_of({1: 0.9})
        later(table, 2)
        table.record_reports(me(), {1: 0.2})
        later(table)
        left = math.exp(-1 / 5)
        expected = (odds(0.9) * left**2 + odds(0.2)) * left
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.1})  # the report stood for a round, and has not changed
        later(table)
        assert evidence(table) == pytest.approx((expected + odds(0.1)) * math.exp(-1 / 6))


class TestSecondHandResults:
    def test_by_hand(self):
        table = table_of()
        table.record_second_hand_results(
            me(), [offer(1, {3: 0.9}), offer(2, {3: 0.8})], {1: 0.7, 2: 0.1}
        )
        similar, dissimilar = odds(0.9), odds(0.8)
        expected = 0.7 * similar - 0.3 * similar + 0.1 * dissimilar - 0.9 * dissimilar
        assert evidence(table, 3) == pytest.approx(expected)

    def test_rejection_by_a_dissimilar_peer_is_no_evidence_for_similarity(self):
        table = table_of()
        table.record_second_hand_results(me(), [offer(1, {3: 0.2})], {1: 0.1})
        assert evidence(table, 3) == pytest.approx(0.1 * odds(0.2))

    def test_newer_replaces_older(self):
        table = table_of()
        for value in (0.9, 0.2):
            table.record_second_hand_results(me(), [offer(1, {3: value})], {1: 1.0})
        assert evidence(table, 3) == pytest.approx(odds(0.2))

    def test_a_peer_named_twice_in_a_table_counts_once(self):
        """Otherwise a peer could multiply its influence."""
        message = {"peers": np.array([3, 3, 3]), "verdicts": np.array([0.9, 0.9, 0.8])}
        table = table_of()
        table.record_second_hand_results(
            me(), [Offer(1, 10, message), offer(2, {3: 0.7})], {1: 1.0, 2: 1.0}
        )
        assert evidence(table, 3) == pytest.approx(odds(0.8) + odds(0.7))

    @pytest.mark.parametrize(
        "message",
        [
            {},
            {"peers": np.array([3]), "verdicts": np.array([np.nan])},
            {"peers": np.array([3]), "verdicts": np.array([7.0])},
            {"peers": np.array([-1, 99, 0]), "verdicts": np.array([1.0, 1.0, 1.0])},
            {"peers": np.array([3.0]), "verdicts": np.array([1.0])},
            {"peers": np.array([[3]]), "verdicts": np.array([[1.0]])},
        ],
    )
    def test_invalid_tables_are_ignored(self, message):
        table = table_of()
        table.record_second_hand_results(me(), [Offer(1, 10, message)], {1: 1.0})
        assert table.similarity_probabilities(np.arange(1, 6)).tolist() == [0.5] * 5


def everything(table):
    """Return what a table says, and what it says later and after one more result."""
    said = [
        table.similarity_probabilities(np.arange(1, 6)),
        table.test_results(np.arange(9)),
        *table.message().values(),
    ]
    later(table)
    table.record_test_results({3: 0.7})
    later(table, 2)
    return [values.tolist() for values in (*said, table.similarity_probabilities(np.arange(1, 6)))]


def test_it_survives_saving():
    table = table_of({1: 0.9, 3: 0.2})
    later(table)
    table.record_test_results({1: 0.1})
    table.record_second_hand_results(me(), [offer(1, {4: 0.9})], {1: 0.6})
    again = PeerEvidence()
    again.restore(table.save())
    np.testing.assert_equal(everything(again), everything(table))


def test_tables_of_earlier_checkpoints_are_read():
    """They have a row for every peer, known or not."""
    table = table_of({1: 0.9, 3: 0.2})
    table.record_second_hand_results(me(), [offer(1, {4: 0.9})], {1: 0.6})
    saved = table.save()
    unknown = {"verdicts": np.nan, "ages": 7.0}
    dense = {"turned": saved["turned"]}
    for name in ("verdicts", "own", "doubted", "ages", "evidence", "hearsay"):
        dense[name] = np.full(9, unknown.get(name, 0.0))
        dense[name][saved["peers"]] = saved[name]
    again = later(PeerEvidence())
    again.restore(dense)
    assert again.peers.tolist() == [1, 3, 4]
    np.testing.assert_equal(everything(again), everything(table))


def test_what_was_saved_does_not_change_any_more():
    table = table_of({1: 0.9})
    saved = table.save()
    table.record_test_results({1: 0.2})
    assert saved["verdicts"].tolist() == [0.9]
    assert saved["evidence"].tolist() == [pytest.approx(odds(0.9))]


def test_clearing():
    table = table_of({1: 0.9, 2: 0.1})
    later(table)
    table.record_test_results({1: 0.1})
    table.record_second_hand_results(me(), [offer(1, {4: 0.9})], {1: 0.6})
    table.clear()
    np.testing.assert_equal(everything(table), everything(table_of()))


def test_the_table_grows_with_the_peers():
    table = table_of({1: 0.9})
    table.start_round(PERIOD, MANY)
    table.record_test_results({39: 0.8, 50: 0.7})
    assert table.test_results(np.array([1, 38, 39, 50])).tolist() == pytest.approx(
        [0.9, math.nan, 0.8, 0.7], nan_ok=True
    )
    assert table.similar_peers().tolist() == [1, 39, 50]


class TestDistrust:
    def distrusting(self):
        """Return a table where peer 1 reported similarity, and clearly failed the test."""
        table = table_of()
        table.record_reports(me(), {1: 0.9})
        table.record_test_results({1: 0.0})
        return table

    def test_reports_and_tables_of_distrusted_peers_are_ignored(self):
        table = self.distrusting()
        before = evidence(table)
        table.record_reports(me(), {1: 0.9})
        table.record_second_hand_results(me(), [offer(1, {2: 0.9})], {1: 0.0})
        assert evidence(table) == before
        assert evidence(table, 2) == pytest.approx(0)
        assert table.test_results(np.array([1])).tolist() == [0.0]

    @pytest.mark.parametrize(("result", "is_distrusted"), [(0.21, False), (0.19, True)])
    def test_only_the_clearest_result_makes_distrust(self, result, is_distrusted):
        """By 16 samples that is q = 1/5."""
        table = later(PeerEvidence(), num_samples=16)
        table.record_reports(me(), {1: 0.9})
        table.record_test_results({1: result})
        table.record_reports(me(), {1: 0.7})
        assert table.test_results(np.array([1])).tolist() == [result if is_distrusted else 0.7]

    def test_a_peer_is_not_distrusted_before_its_report_is_contradicted(self):
        table = table_of({1: 0.01})
        table.record_reports(me(), {1: 0.9})
        assert evidence(table) == pytest.approx(odds(0.01) + odds(0.9))
        assert table.test_results(np.array([1])).tolist() == [0.9]

    def test_a_peer_that_reported_dissimilarity_is_not_distrusted(self):
        table = table_of()
        table.record_reports(me(), {1: 0.2})
        table.record_test_results({1: 0.0})
        table.record_reports(me(), {1: 0.9})
        assert table.test_results(np.array([1])).tolist() == [0.9]

    def test_it_lasts_until_the_peer_passes_a_test(self):
        table = self.distrusting()
        table.record_test_results({1: 0.2})
        table.record_reports(me(), {1: 0.9})
        assert table.test_results(np.array([1])).tolist() == [0.2]
        table.record_test_results({1: 0.8})
        table.record_reports(me(), {1: 0.7})
        assert table.test_results(np.array([1])).tolist() == [0.7]

    def test_it_survives_saving_and_ends_when_the_table_is_cleared(self):
        table, copy = self.distrusting(), PeerEvidence()
        copy.restore(table.save())
        later(copy)
        copy.record_reports(me(), {1: 0.9})
        assert copy.test_results(np.array([1])).tolist() == [0.0]
        copy.clear()
        copy.record_reports(me(), {1: 0.9})
        assert copy.test_results(np.array([1])).tolist() == [0.9]
