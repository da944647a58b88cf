"""The table of verdicts: evidence that adds up and fades, what is told, and hearsay."""

import math

import numpy as np
import pytest
from kin_parts import me, offer

from coterie.strategies.kin.evidence import PeerEvidence
from coterie.strategies.requests import Offer

PERIOD, MANY = 5.0, 10_000


def odds(chance):
    """Return the log-odds of a probability."""
    return math.log(chance / (1 - chance))


def later(table, rounds=1, num_samples=MANY):
    for _ in range(rounds):
        table.start_round(me(), PERIOD, num_samples)
    return table


def table_of(verdicts=None):
    table = later(PeerEvidence())
    table.record_test_results(verdicts or {})
    return table


def evidence(table, peer=1):
    """What speaks for a peer beside the prior, in log-odds."""
    (chance,) = table.similarity_probabilities(np.array([peer]))
    known = table.message()["verdicts"]
    return odds(chance) - odds((1 + known.sum()) / (2 + len(known)))


def test_the_prior_is_the_share_found_so_far():
    table = table_of({1: 0.9, 2: 0.1, 3: 0.2})
    share = (1 + 1.2) / (2 + 3)
    unknown, known = table.similarity_probabilities(np.array([4, 1]))
    assert unknown == pytest.approx(share)
    assert odds(known) == pytest.approx(odds(share) + odds(0.9))


@pytest.mark.parametrize("num_samples", [10, 100, 1000])
def test_sure_is_who_has_more_to_show_than_any_verdict(num_samples):
    """From P = n/(1 + n) on, which takes the prior or a second verdict besides the best one."""
    table = later(PeerEvidence(), num_samples=num_samples)
    peers = np.arange(1, 6)
    best = math.sqrt(num_samples) / (1 + math.sqrt(num_samples))
    seen = set()
    for _ in range(4):
        sure = table.is_surely_similar(peers)
        np.testing.assert_array_equal(
            sure, table.similarity_probabilities(peers) >= num_samples / (1 + num_samples) - 1e-12
        )
        seen.add(tuple(sure))
        table.record_test_results({1: 0.999999, 2: best, 3: 0.5, 4: 0.01})
    assert {(False,) * 5, (True, True, False, False, False)} <= seen


class TestEvidence:
    def test_it_adds_up_and_fades_by_hand(self):
        table = table_of({1: 0.9})
        assert evidence(table) == pytest.approx(odds(0.9))
        later(table)  # nothing has turned in no round: f = 1/5
        expected = odds(0.9) * math.exp(-1 / 5)
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.8})  # it had stood for a round: f = 1/6
        expected += odds(0.8)
        assert evidence(table) == pytest.approx(expected)
        later(table, 2)
        expected *= math.exp(-2 / 6)
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.3})  # it has turned, after two rounds more: f = 2/8
        expected += odds(0.3)
        later(table)
        assert evidence(table) == pytest.approx(expected * math.exp(-2 / 8))

    def test_a_verdict_of_the_same_side_has_not_turned(self):
        table = table_of({1: 0.9})
        table.record_test_results({1: 0.6})
        later(table)
        assert evidence(table) == pytest.approx((odds(0.9) + odds(0.6)) * math.exp(-1 / 5))

    @pytest.mark.parametrize("certain", [0.0, 1.0])
    def test_no_verdict_counts_more_than_the_best_there_can_be(self, certain):
        """By 16 samples that is q = 4/5."""
        table = later(PeerEvidence(), num_samples=16)
        table.record_test_results({1: certain})
        table.record_second_hand_results(me(), [offer(1, {2: certain})], {1: 1.0})
        sign = 1 if certain else -1
        assert evidence(table, 1) == pytest.approx(sign * odds(0.8))
        assert evidence(table, 2) == pytest.approx(sign * odds(0.8))

    def test_nobody_elses_evidence_grows(self):
        table = table_of({1: 0.9, 2: 0.4})
        table.record_test_results({1: 0.9})
        assert evidence(table, 2) == pytest.approx(odds(0.4))
        assert evidence(table, 3) == pytest.approx(0)

    def test_the_newest_verdict_is_the_verdict(self):
        table = table_of({1: 0.9})
        table.record_test_results({1: 0.2})
        assert table.test_results(np.array([1])).tolist() == [0.2]
        assert table.message()["verdicts"].tolist() == [0.2]
        assert table.similar_peers().tolist() == []

    def test_what_proves_to_last_fades_more_slowly(self):
        unproved, proved = table_of({1: 0.9}), table_of({1: 0.9, 2: 0.9})
        for _ in range(30):
            proved.record_test_results({2: 0.9, 3: 0.1})
            later(proved)
            later(unproved)
        assert evidence(unproved) < 0.01 < 0.1 < evidence(proved)

    def test_hearsay_does_not_fade(self):
        table = table_of()
        table.record_second_hand_results(me(), [offer(2, {1: 0.9})], {2: 1.0})
        assert evidence(later(table, 50)) == pytest.approx(odds(0.9))

    def test_however_much_it_is_it_stays_a_chance(self):
        table = table_of({1: 0.9})
        for _ in range(1000):
            table.record_test_results({1: 1.0, 2: 0.0})
        chances = table.similarity_probabilities(np.array([1, 2]))
        assert chances[0] == 1.0
        assert 0 < chances[1] < 1e-200


class TestTold:
    def test_it_counts_unless_i_judged_myself(self):
        table = table_of({1: 0.1})
        table.record_reports(
            me(), {1: 0.9, 2: 0.8, 0: 1.0, 77: 1.0, 3: 2.0, 4: math.nan}, tested=[1]
        )
        assert table.test_results(np.array([1, 2])).tolist() == [0.1, 0.8]
        assert np.isnan(table.test_results(np.array([0, 3, 4, 77]))).all()
        assert evidence(table, 1) == pytest.approx(odds(0.1))
        assert evidence(table, 2) == pytest.approx(odds(0.8))

    def test_it_is_known_which_verdicts_are_my_own(self):
        table = table_of({1: 0.9, 2: 0.9})
        table.record_reports(me(), {2: 0.8, 3: 0.7})
        peers = np.array([1, 2, 3, 4, 999])
        assert table.is_own_result(peers).tolist() == [True, False, False, False, False]
        table.record_test_results({2: 0.1})
        assert table.is_own_result(peers).tolist() == [True, True, False, False, False]

    def test_it_adds_up_but_turns_nothing(self):
        table = table_of({1: 0.9})
        later(table, 2)
        table.record_reports(me(), {1: 0.2})
        later(table)
        left = math.exp(-1 / 5)
        expected = (odds(0.9) * left**2 + odds(0.2)) * left
        assert evidence(table) == pytest.approx(expected)
        table.record_test_results({1: 0.1})  # what I was told stood for a round, and has not turned
        later(table)
        assert evidence(table) == pytest.approx((expected + odds(0.1)) * math.exp(-1 / 6))


class TestHearsay:
    def test_by_hand(self):
        table = table_of()
        table.record_second_hand_results(
            me(), [offer(1, {3: 0.9}), offer(2, {3: 0.8})], {1: 0.7, 2: 0.1}
        )
        trusted, doubted = odds(0.9), odds(0.8)
        expected = 0.7 * trusted - 0.3 * trusted + 0.1 * doubted - 0.9 * doubted
        assert evidence(table, 3) == pytest.approx(expected)

    def test_whom_strangers_refuse_is_not_the_better_for_it(self):
        table = table_of()
        table.record_second_hand_results(me(), [offer(1, {3: 0.2})], {1: 0.1})
        assert evidence(table, 3) == pytest.approx(0.1 * odds(0.2))

    def test_newer_replaces_older(self):
        table = table_of()
        for value in (0.9, 0.2):
            table.record_second_hand_results(me(), [offer(1, {3: value})], {1: 1.0})
        assert evidence(table, 3) == pytest.approx(odds(0.2))

    def test_who_is_named_twice_in_a_table_counts_once(self):
        """Else whoever repeats itself would be heard more than others."""
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
    def test_nonsense_is_not_heard(self, message):
        table = table_of()
        table.record_second_hand_results(me(), [Offer(1, 10, message)], {1: 1.0})
        assert table.similarity_probabilities(np.arange(1, 6)).tolist() == [0.5] * 5


def everything(table):
    """What a table says, and what it will say later and after one more verdict."""
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


def test_what_was_saved_does_not_change_any_more():
    table = table_of({1: 0.9})
    saved = table.save()
    table.record_test_results({1: 0.2})
    assert saved["verdicts"][1] == 0.9
    assert saved["evidence"][1] == pytest.approx(odds(0.9))


def test_forgetting():
    table = table_of({1: 0.9, 2: 0.1})
    later(table)
    table.record_test_results({1: 0.1})
    table.record_second_hand_results(me(), [offer(1, {4: 0.9})], {1: 0.6})
    table.clear()
    np.testing.assert_equal(everything(table), everything(table_of()))


def test_room_is_made_for_whoever_turns_up():
    table = table_of({1: 0.9})
    table.start_round(me(known=40), PERIOD, MANY)
    table.record_test_results({39: 0.8, 50: 0.7})
    assert table.test_results(np.array([1, 38, 39, 50])).tolist() == pytest.approx(
        [0.9, math.nan, 0.8, 0.7], nan_ok=True
    )
    assert table.similar_peers().tolist() == [1, 39, 50]


class TestDoubt:
    def doubted(self):
        """Peer 1 said that I suit it, and surely does not suit me."""
        table = table_of()
        table.record_reports(me(), {1: 0.9})
        table.record_test_results({1: 0.0})
        return table

    def test_what_the_doubted_say_counts_for_nothing(self):
        table = self.doubted()
        before = evidence(table)
        table.record_reports(me(), {1: 0.9})
        table.record_second_hand_results(me(), [offer(1, {2: 0.9})], {1: 0.0})
        assert evidence(table) == before
        assert evidence(table, 2) == pytest.approx(0)
        assert table.test_results(np.array([1])).tolist() == [0.0]

    @pytest.mark.parametrize(("verdict", "is_sure"), [(0.21, False), (0.19, True)])
    def test_only_the_surest_verdict_makes_doubt(self, verdict, is_sure):
        """By 16 samples that is q = 1/5."""
        table = later(PeerEvidence(), num_samples=16)
        table.record_reports(me(), {1: 0.9})
        table.record_test_results({1: verdict})
        table.record_reports(me(), {1: 0.7})
        assert table.test_results(np.array([1])).tolist() == [verdict if is_sure else 0.7]

    def test_nobody_is_doubted_before_its_word_was_found_wrong(self):
        table = table_of({1: 0.01})
        table.record_reports(me(), {1: 0.9})
        assert evidence(table) == pytest.approx(odds(0.01) + odds(0.9))
        assert table.test_results(np.array([1])).tolist() == [0.9]

    def test_who_says_that_i_do_not_suit_it_is_not_doubted(self):
        table = table_of()
        table.record_reports(me(), {1: 0.2})
        table.record_test_results({1: 0.0})
        table.record_reports(me(), {1: 0.9})
        assert table.test_results(np.array([1])).tolist() == [0.9]

    def test_it_lasts_until_i_find_otherwise_myself(self):
        table = self.doubted()
        table.record_test_results({1: 0.2})
        table.record_reports(me(), {1: 0.9})
        assert table.test_results(np.array([1])).tolist() == [0.2]
        table.record_test_results({1: 0.8})
        table.record_reports(me(), {1: 0.7})
        assert table.test_results(np.array([1])).tolist() == [0.7]

    def test_it_survives_saving_and_ends_when_everything_is_forgotten(self):
        table, copy = self.doubted(), PeerEvidence()
        copy.restore(table.save())
        later(copy)
        copy.record_reports(me(), {1: 0.9})
        assert copy.test_results(np.array([1])).tolist() == [0.0]
        copy.clear()
        copy.record_reports(me(), {1: 0.9})
        assert copy.test_results(np.array([1])).tolist() == [0.9]
