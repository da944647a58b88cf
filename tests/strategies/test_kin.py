"""Kin: the test of exchangeability, average or adopt, verdicts that fade, and a whole round."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.adopting import average_or_adopt
from coterie.exchangeable import excess, has_jumped, is_worse, verdict, verdicts
from coterie.strategies.base import Fetch, Listen, Me, Merge, Offer, Tell, Train, Try, Validate
from coterie.strategies.kin import Kin
from coterie.verdicts import VerdictTable


def losses(*values):
    return np.array(values, np.float32)


def me(number=0, known=6, round_number=1, seed=0):
    return Me(
        peer=number,
        round=round_number,
        known=np.arange(known),
        num_samples=10,
        rng=np.random.default_rng(seed),
    )


class TestTheTest:
    def test_z_by_hand(self):
        # d = 1, 0, 2, 1: mean 1, sd √(2/3), √n = 2
        z = excess(losses(1, 1, 3, 2), losses(0, 1, 1, 1))
        assert z == pytest.approx(1 / (math.sqrt(2 / 3) / 2))

    def test_q_by_hand(self):
        z = 1 / (math.sqrt(2 / 3) / 2)
        q = verdict(losses(1, 1, 3, 2), losses(0, 1, 1, 1))
        assert q == pytest.approx(1 / (1 + math.exp(z**2 / 2 - math.log(4) / 2)))

    def test_a_better_model_is_as_good_as_an_equal_one(self):
        mine = losses(3, 2, 5, 4)
        best = 1 / (1 + 1 / math.sqrt(4))
        assert verdict(mine - 2, mine) == verdict(mine, mine) == pytest.approx(best)

    def test_the_more_samples_the_surer(self):
        rng = np.random.default_rng(0)
        found = []
        for count in (20, 100, 1000):
            mine = rng.exponential(size=count).astype(np.float32)
            noise = rng.normal(0.1, 0.5, size=count).astype(np.float32)
            found.append(verdict(mine + noise, mine))
        assert found[2] < 1e-3 < found[0]

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_no_number_is_no_match(self, bad):
        assert verdict(losses(bad, 1, 1), losses(1, 1, 1)) == 0.0
        assert is_worse(losses(bad, 1, 1), losses(1, 1, 1))

    def test_a_difference_without_noise_is_certain(self):
        assert verdict(losses(2, 3, 4), losses(1, 2, 3)) == 0.0
        assert excess(losses(1, 2, 3), losses(2, 3, 4)) == -math.inf

    def test_one_sample_tells_nothing(self):
        assert verdict(losses(5), losses(1)) == 0.5
        assert not is_worse(losses(5), losses(1)) or math.log(1) == 0

    @given(st.lists(st.floats(0, 1e6, width=32), min_size=2, max_size=50), st.randoms())
    def test_it_is_a_probability_and_worse_is_never_likelier(self, values, random):
        mine = np.array(values, np.float32)
        noise = np.array([random.uniform(0, 1) for _ in values], np.float32)
        a, b = verdict(mine + noise, mine), verdict(mine + noise + 1, mine)
        assert 0 <= b <= a + 1e-9 <= 1 + 1e-9


class TestLinkage:
    mine = np.linspace(0, 3, 400, dtype=np.float32)
    noise = np.tile([[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]], 100).astype(np.float32)
    near = mine + 0.05 + 0.5 * noise[0]  # z = 2 against mine, and ln n is 2.4²
    far = near + 0.05 + 0.5 * noise[1]  # z = 2 against near, 2.8 against mine

    def test_kin_of_my_kin_is_my_kin(self):
        alone = verdicts({1: self.near, 2: self.far}, self.mine, linkage=False)
        linked = verdicts({1: self.near, 2: self.far}, self.mine)
        assert alone[1] == linked[1] > 0.5
        assert alone[2] < 0.5 < linked[2]

    def test_the_best_come_first_whatever_their_numbers(self):
        one = verdicts({1: self.near, 2: self.far}, self.mine)
        other = verdicts({2: self.near, 1: self.far}, self.mine)
        assert (one[1], one[2]) == (other[2], other[1])


def test_a_jump_is_seen_across_different_samples():
    rng = np.random.default_rng(0)
    before = rng.exponential(1.0, 100).astype(np.float32)
    assert has_jumped(rng.exponential(3.0, 80).astype(np.float32), before)
    assert not has_jumped(rng.exponential(1.05, 80).astype(np.float32), before)
    assert not has_jumped(before / 10, before)


def played(plan, answer):
    """Run a generator to its end, answering requests; return what it asked and what it returned."""
    asked, reply = [], None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration as done:
            return asked, done.value
        asked.append(request)
        reply = answer(request)


class TestAverageOrAdopt:
    mine = losses(*[1.0, 1.2] * 10)

    def weights(self, tries):
        answers = iter(tries)
        theirs = {1: losses(*[1.1, 1.1] * 10), 2: losses(*[9.0, 8.0] * 10)}
        plan = average_or_adopt(me(), self.mine, theirs, {1: 0.75, 2: 0.0})
        return played(plan, lambda request: next(answers))

    def test_a_good_average_is_taken(self):
        asked, weights = self.weights([self.mine])
        assert weights == {0: 1 / 1.75, 1: 0.75 / 1.75}
        assert [type(each) for each in asked] == [Try]

    def test_strangers_have_no_part_in_it(self):
        _, weights = self.weights([self.mine])
        assert 2 not in weights

    def test_what_does_not_average_is_not_averaged(self):
        ruined = self.mine + 5
        asked, weights = self.weights([ruined, ruined])
        assert weights == {0: 1.0}
        assert len(asked) == 2

    def test_a_better_model_is_adopted(self):
        better = {1: self.mine - losses(*[0.5, 0.4] * 10)}
        plan = average_or_adopt(me(), self.mine, better, {1: 0.8})
        _, weights = played(plan, lambda request: self.mine + 5)
        assert weights == {1: 1.0}

    def test_the_soup_takes_in_whoever_does_no_harm(self):
        theirs = {k: self.mine + losses(*[0.01 * k, 0.0] * 10) for k in (1, 2, 3)}
        found = dict.fromkeys(theirs, 0.8)

        def taste(request):
            return self.mine + 5 if 2 in request.weights else self.mine

        _, weights = played(average_or_adopt(me(), self.mine, theirs, found), taste)
        assert sorted(weights) == [0, 1, 3]
        assert weights[1] == pytest.approx(0.8 / 2.6)

    def test_alone_nothing_is_tried(self):
        assert played(average_or_adopt(me(), self.mine, {}, {}), None) == ([], {0: 1.0})


def offer(peer, judged):
    peers = np.array(list(judged), np.int64)
    return Offer(peer, 10, {"peers": peers, "verdicts": np.array(list(judged.values()), float)})


class TestVerdicts:
    def table(self, verdicts=None):
        table = VerdictTable()
        table.grow_older(me())
        table.judged(verdicts or {})
        return table

    def test_the_prior_is_the_share_found_so_far(self):
        table = self.table({1: 0.9, 2: 0.1, 3: 0.2})
        share = (1 + 1.2) / (2 + 3)
        a, b = table.evidence(np.array([4, 1]), period=5.0)
        assert a[0] == pytest.approx(2 * share)
        assert b[0] == pytest.approx(2 * (1 - share))
        assert a[1] == pytest.approx(2 * share + 0.9)
        assert b[1] == pytest.approx(2 * (1 - share) + 0.1)

    def test_hearsay_by_hand(self):
        table = self.table()
        table.heard(me(), [offer(1, {3: 0.9}), offer(2, {3: 0.8})], {1: 0.7, 2: 0.1})
        a, b = table.evidence(np.array([3]), period=5.0)
        assert a[0] - 1 == pytest.approx(0.7 * 0.9 + 0.1 * 0.8)
        assert b[0] - 1 == pytest.approx(0.7 * 0.1 + 0.3 * 0.9 + 0.1 * 0.2 + 0.9 * 0.8)

    def test_newer_hearsay_replaces_older(self):
        table = self.table()
        for value in (0.9, 0.2):
            table.heard(me(), [offer(1, {3: value})], {1: 1.0})
        assert table.evidence(np.array([3]), period=5.0)[0][0] == pytest.approx(1.2)

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
        table = self.table()
        table.heard(me(), [Offer(1, 10, message)], {1: 1.0})
        a, b = table.evidence(np.arange(1, 6), period=5.0)
        assert a.tolist() == b.tolist() == [1.0] * 5

    def test_what_i_was_told_counts_unless_i_judged_myself(self):
        table = self.table({1: 0.1})
        table.told(me(), {1: 0.9, 2: 0.8, 0: 1.0, 77: 1.0, 3: 2.0, 4: math.nan}, judged=[1])
        assert table.of(np.array([1, 2]))[:2].tolist() == [0.1, 0.8]
        assert np.isnan(table.of(np.array([0, 3, 4, 77]))).all()

    def test_verdicts_fade_unless_they_prove_to_last(self):
        fading, lasting = self.table({1: 1.0}), self.table({1: 1.0})
        for _ in range(40):
            lasting.grow_older(me())
            lasting.judged({2: 0.9, 3: 0.1})
        for _ in range(40):
            fading.grow_older(me())
        for _ in range(40):
            lasting.grow_older(me())
        weak = fading.evidence(np.array([1]), period=5.0)
        strong = lasting.evidence(np.array([1, 5]), period=5.0)
        assert weak[0][0] - weak[1][0] == pytest.approx(2 / 3, abs=1e-2)  # the prior alone
        assert strong[0][0] > strong[0][1] + 0.2

    def test_verdicts_that_turn_fade_faster(self):
        steady, fickle = self.table({1: 1.0}), self.table({1: 1.0})
        for number in range(20):
            for table, verdict_now in ((steady, 1.0), (fickle, float(number % 2))):
                table.grow_older(me())
                table.judged({1: verdict_now})
                table.judged({2: 0.5})
        for _ in range(10):
            steady.grow_older(me())
            fickle.grow_older(me())
        assert (
            fickle.evidence(np.array([1]), 5.0)[0].sum()
            + fickle.evidence(np.array([1]), 5.0)[1].sum()
            < steady.evidence(np.array([1]), 5.0)[0].sum()
            + steady.evidence(np.array([1]), 5.0)[1].sum()
        )

    def test_it_survives_saving(self):
        table = self.table({1: 0.9, 3: 0.2})
        table.grow_older(me())
        table.judged({1: 0.1})
        table.heard(me(), [offer(1, {4: 0.9})], {1: 0.6})
        again = VerdictTable()
        again.restore(table.save())
        for one, other in zip(
            table.evidence(np.arange(1, 6), 3.0), again.evidence(np.arange(1, 6), 3.0), strict=True
        ):
            assert one.tolist() == other.tolist()
        assert table.message().keys() == again.message().keys() == {"peers", "verdicts"}

    def test_forgetting(self):
        table = self.table({1: 0.9, 2: 0.1})
        table.forget()
        assert len(table.message()["peers"]) == 0
        assert table.evidence(np.array([1]), 5.0)[0][0] == 1.0


def test_a_round_by_hand():
    kin = Kin(fetches=2)
    mine = losses(*[1.0, 1.2] * 10)
    good, bad = mine + losses(*[0.1, -0.1] * 10), mine + 7
    fetched = []

    def answer(request):
        match request:
            case Listen():
                return {4: 1.0}
            case Validate(peers=(0,)):
                return {0: mine}
            case Fetch(peers=peers):
                fetched.extend(peers)
                return [offer(peer, {}) for peer in peers]
            case Validate(peers=peers):
                return {peers[0]: good, peers[1]: bad}
            case Try():
                return mine
        return None

    asked, _ = played(kin.round(me()), answer)
    kinds = [type(each) for each in asked]
    assert kinds == [Listen, Validate, Fetch, Validate, Tell, Try, Merge, Train]
    tell, merge = asked[4], asked[6]
    assert tell.values[fetched[0]] > 0.5
    assert tell.values[fetched[1]] == 0.0
    assert sorted(merge.weights) == sorted([0, fetched[0]])
    assert fetched[0] in kin.neighbours()
    assert fetched[1] not in kin.neighbours()


def test_the_promising_are_fetched_and_the_unknown_tried():
    kin = Kin(fetches=3)
    kin.table.grow_older(me(known=30))
    kin.table.judged({k: 0.99 if k <= 3 else 0.0 for k in range(1, 20)})
    counts = np.zeros(30)
    for seed in range(400):
        for peer in kin.chosen(me(known=30, seed=seed)):
            counts[peer] += 1
    assert counts[0] == 0
    assert counts[1:4].mean() > 2 * counts[20:].mean() > 2 * counts[4:20].mean() > 0


def test_a_jump_of_my_own_loss_makes_it_forget():
    kin = Kin()
    kin.table.grow_older(me())
    kin.table.judged({1: 0.9})
    calm = np.linspace(0.9, 1.1, 50, dtype=np.float32)
    kin._notice(calm)
    assert len(kin.neighbours()) == 1
    kin._notice(calm + 3)
    assert len(kin.neighbours()) == 0


@pytest.mark.parametrize("part", ["linkage", "replies", "hearsay"])
def test_parts_can_be_left_out(part):
    kin = Kin(fetches=2, **{part: False})
    mine = losses(*[1.0, 1.2] * 10)
    answers = {Listen: {}, Tell: None, Merge: None, Train: None, Try: mine}

    def answer(request):
        if isinstance(request, Fetch):
            return [offer(peer, {5: 0.9}) for peer in request.peers]
        if isinstance(request, Validate):
            return dict.fromkeys(request.peers, mine)
        return answers[type(request)]

    asked, _ = played(kin.round(me()), answer)
    assert any(isinstance(each, Tell) for each in asked) == (part != "replies")
    assert (len(kin.message()) > 0) == (part != "hearsay")
