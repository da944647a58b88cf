"""Greedy, EpsilonGreedy, RandomWeighted and PENS, rule by rule."""

from __future__ import annotations

import numpy as np
import pytest
from plans import drive

from coterie.errors import ConfigError
from coterie.strategies.greedy import Greedy, most_similar
from coterie.strategies.parts.peer_counts import PeerCounts
from coterie.strategies.pens import PENS
from coterie.strategies.random_weighted import RandomWeighted
from coterie.strategies.requests import AskScore, Fetch, Merge, Offer, Score, Train
from coterie.strategies.strategy import Me, Strategy

NUM_PEERS = 11
ACCURACIES = {peer: peer / 10 for peer in range(1, NUM_PEERS)}
"""Peer 10 finds my model best, peer 1 worst."""


def me(round_number: int = 1, seed: int = 0) -> Me:
    rng = np.random.default_rng(seed)
    return Me(0, round_number, np.arange(NUM_PEERS), 10, rng, validation_score=0.5)


def counted(times: list[int]) -> PeerCounts:
    """Return counts of peers 0, 1, …"""
    counts = PeerCounts()
    counts.add([peer for peer, count in enumerate(times) for _ in range(count)])
    return counts


def play(strategy: Strategy, mine: Me, *, silent: frozenset[int] = frozenset()) -> list:
    """Run one round; all peers but the silent ones answer."""

    def answer(request: object) -> object:
        match request:
            case Fetch(peers):
                return [Offer(peer, 10, {}) for peer in peers if peer not in silent]
            case AskScore(peers):
                return {peer: ACCURACIES[peer] for peer in peers if peer not in silent}
            case Score(offers):
                return {offer.peer: ACCURACIES[offer.peer] for offer in offers}
        return None

    return drive(strategy.round(mine), answer)


def test_greedy_merges_with_those_that_report_the_highest_accuracy():
    asked = play(Greedy(fetches=3, samples=6), me())
    assert [type(request) for request in asked] == [AskScore, Fetch, Merge, Train]
    assert len(asked[0].peers) == 6
    assert asked[0].metric == "accuracy"
    assert asked[1].peers == tuple(sorted(asked[0].peers, reverse=True)[:3])
    assert set(asked[2].weights) == {0, *asked[1].peers}


def test_greedy_by_loss_prefers_low_losses():
    asked = play(Greedy(fetches=2, samples=5, metric="inverse-loss"), me())
    assert asked[0].metric == "loss"
    assert asked[1].peers == tuple(sorted(asked[0].peers)[:2])


def test_greedy_by_weights_fetches_what_it_compares():
    asked = play(Greedy(fetches=2, samples=5, metric="cosine-weights"), me())
    assert [type(request) for request in asked] == [Fetch, Score, Merge, Train]
    assert set(asked[2].weights) == {0, *sorted(asked[0].peers, reverse=True)[:2]}


def test_pens_by_weights_merges_what_it_compared_without_fetching_it_again():
    strategy = PENS(fetches=2, samples=5, samplings=2, metric="cosine-weights")
    asked = play(strategy, me())
    assert [type(request) for request in asked] == [Fetch, Score, Fetch, Score, Merge, Train]
    assert set(asked[4].weights) == {0, *sorted(asked[2].peers, reverse=True)[:2]}


def test_greedy_selects_among_those_that_answered():
    asked = play(Greedy(fetches=3, samples=10), me(), silent=frozenset({9, 10}))
    assert asked[1].peers == (8, 7, 6)


def test_best_keeps_the_order_of_equals():
    assert most_similar({4: 0.5, 2: 0.5, 3: 0.9}, 2) == (3, 4)


def test_epsilon_greedy_swaps_a_binomial_number():
    """n ~ Bin(m_selected, ε·λ^t); a swapped-out peer may be drawn back in."""
    strategy = Greedy(fetches=4, samples=10, epsilon=0.5)
    top = {7, 8, 9, 10}
    replaced = []
    for seed in range(2000):
        fetched = play(strategy, me(seed=seed))[1].peers
        assert len(set(fetched)) == 4
        replaced.append(len(set(fetched) - top))
    # Each of the 4 goes with probability ½; a swapped place is filled from n + 6 candidates,
    # 6 of which are new: E[new] = E[n · 6 / (6 + n)].
    counts = np.arange(5)
    chances = np.array([1, 4, 6, 4, 1]) / 16
    expected = (chances * counts * 6 / (6 + counts)).sum()
    assert np.mean(replaced) == pytest.approx(expected, abs=0.06)


def test_epsilon_decays_with_the_round():
    strategy = Greedy(fetches=4, samples=10, epsilon=1.0, decay=0.5)
    early = [play(strategy, me(1, seed))[1].peers for seed in range(300)]
    late = [play(strategy, me(40, seed))[1].peers for seed in range(300)]
    assert set(late) == {(10, 9, 8, 7)}
    assert len(set(early)) > 20


def test_everything_is_swapped_when_epsilon_is_one():
    """All four go; the new ones are drawn from all ten, the four among them."""
    strategy = Greedy(fetches=4, samples=10, epsilon=1.0)
    counts = np.zeros(NUM_PEERS)
    for seed in range(3000):
        counts[list(play(strategy, me(seed=seed))[1].peers)] += 1
    np.testing.assert_allclose(counts[1:] / 3000, 0.4, atol=0.05)


def test_random_weighted_by_hand():
    """Weights are the reported accuracies, my own model's its validation accuracy, normalised."""
    asked = play(RandomWeighted(fetches=3), me())
    assert [type(request) for request in asked] == [AskScore, Fetch, Merge, Train]
    chosen = asked[0].peers
    total = 0.5 + sum(ACCURACIES[peer] for peer in chosen)
    expected = {0: 0.5 / total, **{peer: ACCURACIES[peer] / total for peer in chosen}}
    assert asked[2].weights == pytest.approx(expected)


def test_random_weighted_trains_alone_when_nobody_answers():
    asked = play(RandomWeighted(fetches=3), me(), silent=frozenset(range(NUM_PEERS)))
    assert [type(request) for request in asked] == [AskScore, Fetch, Train]


def test_pens_first_step_selects_many_times_and_merges_the_last_selection():
    strategy = PENS(fetches=2, samples=5, samplings=3, exploration_epochs=7)
    asked = play(strategy, me(1))
    kinds = [type(request) for request in asked]
    assert kinds == [AskScore] * 3 + [Fetch, Merge, Train]
    assert asked[3].peers == tuple(sorted(asked[2].peers, reverse=True)[:2])
    assert asked[-1] == Train(epochs=7)
    assert strategy.num_selected.counts.sum() == 2 * 3
    assert strategy.num_sampled.counts.sum() == 5 * 3


def test_pens_threshold_by_hand():
    """Neighbours were selected more often than |history| / |sampled|: 12 / 6 = 2 here."""
    strategy = PENS()
    strategy.num_sampled = counted([0, 9, 1, 4, 4, 4, 4])
    strategy.num_selected = counted([0, 5, 3, 2, 1, 1, 0])
    assert strategy.neighbours().tolist() == [1, 2]


def test_pens_reads_the_counts_of_earlier_checkpoints():
    """They have one for every peer, selected or not."""
    strategy = PENS()
    saved = {"num_sampled": np.array([0, 9, 1, 4]), "num_selected": np.array([0, 5, 3])}
    strategy.restore(saved)
    assert strategy.num_sampled.peers.tolist() == [1, 2, 3]
    assert strategy.num_selected.of(np.array([0, 1, 2, 3])).tolist() == [0, 5, 3, 0]


def test_pens_finds_those_selected_more_often_than_chance():
    """Chance is 2 of 10. The best four are selected in ≥ 29.8% of samplings, the fifth in 17.9%."""
    strategy = PENS(fetches=2, samples=5, samplings=10, exploration_rounds=20)
    for number in range(1, 21):
        play(strategy, me(number, seed=number))
    assert strategy.neighbours().tolist() == [7, 8, 9, 10]


def test_pens_second_step_is_random_within_the_neighbours():
    strategy = PENS(exploration_rounds=5, later_fetches=2)
    strategy.num_sampled = counted([1] * NUM_PEERS)
    strategy.num_selected = counted([0, 0, 9, 9, 9, 0, 0, 0, 0, 0, 0])
    seen = set()
    for number in range(6, 40):
        asked = play(strategy, me(number, seed=number))
        assert [type(request) for request in asked] == [Fetch, Merge, Train]
        assert len(asked[0].peers) == 2
        seen |= set(asked[0].peers)
    assert seen == {2, 3, 4}


def test_pens_without_neighbours_falls_back_to_everybody():
    strategy = PENS(exploration_rounds=0, later_fetches=10)
    asked = play(strategy, me(1))
    assert sorted(asked[0].peers) == list(range(1, NUM_PEERS))


@pytest.mark.parametrize("kind", [Greedy, PENS])
def test_more_samples_than_others_are_refused(kind):
    with pytest.raises(ConfigError, match=r"strategy\.samples is 20; it must be at least"):
        kind(fetches=4, samples=20).check(20)
    with pytest.raises(ConfigError, match=r"at least strategy\.fetches \(4\)"):
        kind(fetches=4, samples=3).check(20)


def test_impossible_chances_are_refused():
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Greedy(epsilon=1.5).check(100)
