"""Is a model as good as mine, and as the best of them? The paired tests, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kin_parts import losses

from coterie.strategies.kin.paired_test import (
    compare,
    compare_with_best,
    has_increased,
    is_worse,
    mean_loss,
    z_scores,
)


def verdict(theirs, reference):
    """q of one model."""
    return compare({1: theirs}, reference)[1]


def by_hand(*differences):
    """q of differences: the mean in standard errors is z, and n samples cost ln(n)/2."""
    n, mean = len(differences), sum(differences) / len(differences)
    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1))
    z = max(mean / (spread / math.sqrt(n)), 0)
    return pytest.approx(1 / (1 + math.exp(z**2 / 2 - math.log(n) / 2)))


def perfect(n):
    """q of a model that is not worse, on n samples."""
    return pytest.approx(1 / (1 + 1 / math.sqrt(n)))


class TestOneModel:
    def test_z_by_hand(self):
        # d = 1, 0, 2, 1: mean 1, sd √(2/3), √n = 2
        z = z_scores(losses(1, 1, 3, 2), losses(0, 1, 1, 1))
        assert z == pytest.approx(1 / (math.sqrt(2 / 3) / 2))

    def test_q_by_hand(self):
        z = 1 / (math.sqrt(2 / 3) / 2)
        q = verdict(losses(1, 1, 3, 2), losses(0, 1, 1, 1))
        assert q == pytest.approx(1 / (1 + math.exp(z**2 / 2 - math.log(4) / 2)))
        assert q == by_hand(1, 0, 2, 1)

    def test_a_better_model_is_as_good_as_an_equal_one(self):
        mine = losses(3, 2, 5, 4)
        assert verdict(mine - 2, mine) == verdict(mine, mine) == perfect(4)

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
        assert mean_loss(losses(bad, 1, 1)) == math.inf

    def test_a_difference_without_noise_is_certain(self):
        assert verdict(losses(2, 3, 4), losses(1, 2, 3)) == 0.0
        assert z_scores(losses(1, 2, 3), losses(2, 3, 4)) == -math.inf

    def test_one_sample_tells_nothing(self):
        assert verdict(losses(5), losses(1)) == 0.5

    def test_worse_is_where_a_difference_explains_more(self):
        # d = 0, 2, 0, 2: z² = 3, and ln 4 = 1.4; of d = -1, 2, -1, 2 it is 1/3.
        mine = losses(1, 1, 1, 1)
        assert is_worse(mine + losses(0, 2, 0, 2), mine)
        assert not is_worse(mine + losses(-1, 2, -1, 2), mine)
        assert not is_worse(mine - losses(0, 2, 0, 2), mine)

    @given(st.lists(st.floats(0, 1e6, width=32), min_size=2, max_size=50), st.randoms())
    def test_it_is_a_probability_and_worse_is_never_likelier(self, values, random):
        mine = np.array(values, np.float32)
        noise = np.array([random.uniform(0, 1) for _ in values], np.float32)
        a, b = verdict(mine + noise, mine), verdict(mine + noise + 1, mine)
        assert 0 <= b <= a + 1e-9 <= 1 + 1e-9


def test_each_model_is_judged_alone():
    mine = losses(1, 2, 1, 2)
    theirs = {4: mine + losses(1, 0, 2, 1), 2: mine - 1, 3: mine + 1, 1: mine * np.nan}
    expected = {4: by_hand(1, 0, 2, 1), 2: perfect(4), 3: 0.0, 1: 0.0}
    assert compare(theirs, mine) == expected
    assert compare({}, mine) == {}


class TestAgainstTheBest:
    best = losses(1, 2, 1, 2)

    def test_validation_and_training_samples_count_alike(self):
        # The best is no better on training data (1.75) than on validation data (1.5).
        theirs = {1: self.best, 2: self.best + losses(0, 1, 0, 0)}
        practised = {1: losses(1, 2, 2, 2), 2: losses(2, 2, 4, 1)}
        found = compare_with_best(theirs, practised)
        assert found == {1: perfect(8), 2: by_hand(0, 1, 0, 0, 1, 0, 2, -1)}

    def test_what_the_best_knows_by_heart_is_allowed_to_the_others(self):
        # On validation data the best has 1.5, on training data 0.75: 0.75 is known by heart.
        theirs = {1: self.best, 2: self.best + losses(0, 0, 0, 1)}
        practised = {1: losses(0.5, 0.5, 1, 1), 2: losses(1.5, 1, 2, 2)}
        found = compare_with_best(theirs, practised)
        assert found[2] == by_hand(0, 0, 0, 1, 0.25, -0.25, 0.25, 0.25)
        assert found[1] == perfect(8)

    def test_who_knows_nothing_by_heart_is_no_stranger_therefore(self):
        ups_and_downs = np.tile(losses(1, -1, 2, -2), 10)
        level = np.full(40, 3, np.float32)
        theirs = {1: level, 2: level + ups_and_downs}
        practised = {1: level - 2, 2: level - ups_and_downs}
        assert verdict(practised[2], practised[1]) < 0.01
        assert compare_with_best(theirs, practised)[2] > 0.5

    def test_training_data_tell_apart_whom_validation_data_cannot(self):
        theirs = {1: self.best, 2: self.best + losses(1, -1, 1, -1)}
        practised = {1: np.full(50, 1.5, np.float32), 2: np.tile(losses(2.5, 3.5), 25)}
        assert verdict(theirs[2], theirs[1]) == perfect(4)
        assert compare_with_best(theirs, practised)[2] < 1e-6

    def test_the_best_is_the_best_on_both_together(self):
        theirs = {1: losses(0, 1, 0, 1), 2: losses(1, 2, 1, 2)}
        practised = {1: losses(8, 9, 8, 9), 2: losses(1, 2, 1, 2)}
        found = compare_with_best(theirs, practised)
        assert found[2] == perfect(8)
        assert found[1] == by_hand(-1, -1, -1, -1, 7, 7, 7, 7)

    def test_of_equally_good_ones_the_lower_number_is_the_reference(self):
        theirs = {5: losses(2, 1), 3: losses(1, 2), 7: losses(2, 2)}
        practised = {5: losses(1, 1, 1), 3: losses(0, 2, 1), 7: losses(1, 3, 1)}
        # 3 knows 0.5 by heart: it is 1, 2, 0.5, 2.5, 1.5 to the others.
        found = compare_with_best(theirs, practised)
        assert found[7] == by_hand(1, 0, 0.5, 0.5, -0.5)
        assert found[5] == perfect(5)
        assert compare_with_best(dict(reversed(theirs.items())), practised) == found

    def test_without_training_samples_those_of_validation_remain(self):
        theirs = {1: self.best, 2: self.best + losses(1, 0, 2, 1)}
        found = compare_with_best(theirs, {})
        assert found == {1: perfect(4), 2: by_hand(1, 0, 2, 1)}

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_no_number_is_never_the_best(self, bad):
        theirs = {1: losses(bad, 0, 0, 0), 2: self.best}
        practised = {1: losses(0, 0, bad, 0), 2: self.best}
        assert compare_with_best(theirs, practised) == {1: 0.0, 2: perfect(8)}
        assert compare_with_best({1: theirs[1]}, {1: practised[1]}) == {1: 0.0}


def test_a_jump_is_seen_across_different_samples():
    rng = np.random.default_rng(0)
    before = rng.exponential(1.0, 100).astype(np.float32)
    assert has_increased(rng.exponential(3.0, 80).astype(np.float32), before)
    assert not has_increased(rng.exponential(1.05, 80).astype(np.float32), before)
    assert not has_increased(before / 10, before)
