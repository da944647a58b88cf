"""DAC, rule by rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import drive

from coterie.errors import ConfigError
from coterie.strategies import make_strategy
from coterie.strategies.dac import DAC, min_max
from coterie.strategies.parts.merging import federated_similarity
from coterie.strategies.parts.sampling import softmax_probabilities
from coterie.strategies.parts.similarity import measure_similarities
from coterie.strategies.parts.similarity_table import SimilarityTable
from coterie.strategies.requests import AskScore, Fetch, Merge, Offer, Score, Train
from coterie.strategies.strategy import Me

ME, K1, K2, M1, M2 = range(5)
UNKNOWN = float("nan")


def me(round_number: int = 1, num_peers: int = 5) -> Me:
    return Me(ME, round_number, np.arange(num_peers), 10, np.random.default_rng(0))


def offer(peer: int, table: dict[int, float] | None = None) -> Offer:
    known = table or {}
    return Offer(
        peer,
        10,
        {"peers": np.array(list(known), np.int64), "similarities": np.array(list(known.values()))},
    )


def probabilities(similarities: list[float], tau: float, unseen: str = "zero") -> np.ndarray:
    peers = np.arange(len(similarities))
    return np.exp(
        softmax_probabilities(peers, np.array(similarities), tau, unseen).log_probabilities
    )


def test_the_papers_example_of_two_hop_estimates():
    """s_i(k1)=1, s_i(k2)=10; k1 says m1=8; k2 says m1=2, m2=4: the more similar k2 is believed."""
    table = SimilarityTable()
    scores = {K1: 1.0, K2: 10.0}
    table.record_scores(scores)
    table.record_two_hop_estimates(
        me(), [offer(K1, {M1: 8.0}), offer(K2, {M1: 2.0, M2: 4.0})], scores
    )
    assert table.similarities(np.array([K1, K2, M1, M2])).tolist() == [1.0, 10.0, 2.0, 4.0]
    assert table.is_measured(np.array([K1, K2, M1, M2])).tolist() == [True, True, False, False]


def test_a_measurement_is_never_overwritten_by_an_estimate():
    table = SimilarityTable()
    table.record_scores({M1: 5.0, K1: 1.0})
    table.record_two_hop_estimates(me(), [offer(K1, {M1: 99.0})], {K1: 1.0})
    assert table.similarities(np.array([M1])).tolist() == [5.0]


def test_an_estimate_is_refreshed_by_newer_ones_and_replaced_by_a_measurement():
    table = SimilarityTable()
    for value in (3.0, 4.0):
        table.record_two_hop_estimates(me(), [offer(K1, {M1: value})], {K1: 1.0})
        assert table.similarities(np.array([M1])).tolist() == [value]
    table.record_scores({M1: 7.0})
    assert table.similarities(np.array([M1])).tolist() == [7.0]


def test_nobody_tells_me_about_myself():
    table = SimilarityTable()
    table.record_two_hop_estimates(me(), [offer(K1, {ME: 50.0})], {K1: 1.0})
    assert np.isnan(table.similarities(np.array([ME]))).all()


@pytest.mark.parametrize("message", [
    {"peers": np.array([M1, 10**12]), "similarities": np.array([8.0, 9.0])},
    {"peers": np.array([M1, -1]), "similarities": np.array([8.0, 9.0])},
    {"peers": np.array([M1, M2]), "similarities": np.array([8.0, np.nan])},
    {"peers": np.array([M1, M2]), "similarities": np.array([8.0, -np.inf])},
])  # fmt: skip
def test_strangers_and_what_is_no_number_are_not_believed(message):
    """A table may name a peer of number 10¹²: the similarity table does not grow for it."""
    table = SimilarityTable()
    table.record_two_hop_estimates(me(), [Offer(K1, 10, message)], {K1: 1.0})
    known = table.similarities(np.arange(5))
    assert known[M1] == 8.0
    assert np.isnan(np.delete(known, M1)).all()


@pytest.mark.parametrize("message", [
    {},
    {"peers": np.array([M1])},
    {"peers": np.array([M1, M2]), "similarities": np.array([8.0])},
    {"peers": np.array([[M1]]), "similarities": np.array([[8.0]])},
    {"peers": np.array([0.5]), "similarities": np.array([8.0])},
    {"peers": np.array([M1]), "similarities": np.array(["8"])},
])  # fmt: skip
def test_what_is_no_table_tells_nothing(message):
    table = SimilarityTable()
    table.record_two_hop_estimates(me(), [Offer(K1, 10, message)], {K1: 1.0})
    assert np.isnan(table.similarities(np.arange(5))).all()


def test_only_measurements_are_passed_on_unless_any_hops_are_wanted():
    table = SimilarityTable()
    table.record_scores({K1: 1.0})
    table.record_two_hop_estimates(me(), [offer(K1, {M1: 8.0})], {K1: 1.0})
    assert table.message("two")["peers"].tolist() == [K1]
    assert table.message("any")["peers"].tolist() == [K1, M1]
    assert table.message("any")["similarities"].tolist() == [1.0, 8.0]


def test_tables_of_earlier_checkpoints_are_read():
    """They have an entry for every peer, known or not."""
    table = SimilarityTable()
    measured, estimated = np.full((2, 5), UNKNOWN)
    measured[K1], estimated[M1] = 2.0, 8.0
    table.restore({"measured": measured, "estimated": estimated})
    assert table.peers.tolist() == [K1, M1]
    assert table.similarities(np.array([K1, M1])).tolist() == [2.0, 8.0]
    again = SimilarityTable()
    again.restore(table.save())
    np.testing.assert_equal(again.save(), table.save())
    assert again.message("two")["peers"].tolist() == [K1]


def test_softmax_by_hand():
    expected = np.exp([2.0, 4.0, 0.0])
    np.testing.assert_allclose(probabilities([1, 2, 0], 2), expected / expected.sum())


def test_softmax_does_not_overflow():
    """τ·s = 10⁴ is far beyond what exp can take."""
    large = probabilities([1.0, 0.5, UNKNOWN], 10_000)
    assert np.isfinite(large).all()
    np.testing.assert_allclose(large, [1, 0, 0], atol=1e-300)
    chances = softmax_probabilities(np.arange(3), np.array([1.0, 0.5, UNKNOWN]), 10_000)
    assert np.isfinite(chances.log_probabilities).all()


@pytest.mark.parametrize("unseen", ["zero", "epsilon"])
def test_the_largest_claims_do_not_overflow(unseen):
    """τ·s overflows; that peer is certain, and nothing is NaN."""
    chances = softmax_probabilities(np.arange(3), np.array([1e308, -1e308, UNKNOWN]), 1e4, unseen)
    expected = [1, 0, 0]
    np.testing.assert_allclose(np.exp(chances.log_probabilities), expected, atol=1e-5)
    assert chances.sample(np.random.default_rng(0), 3)[0] == 0


def test_more_peers_are_sampled_than_have_a_representable_chance():
    """Under a large τ all but one probability underflow; m distinct peers are drawn anyway."""
    chances = softmax_probabilities(np.arange(6), np.arange(6.0), 10_000)
    assert np.count_nonzero(np.exp(chances.log_probabilities)) == 1
    assert chances.sample(np.random.default_rng(0), 4) == (5, 4, 3, 2)


def test_unseen_zero_and_epsilon():
    zero = probabilities([1.0, UNKNOWN, -1.0], 3, "zero")
    np.testing.assert_allclose(zero, np.exp([3, 0, -3]) / np.exp([3, 0, -3]).sum())
    known = np.array([np.exp(3), 0, np.exp(-3)]) / (np.exp(3) + np.exp(-3)) + 1e-6
    np.testing.assert_allclose(
        probabilities([1.0, UNKNOWN, -1.0], 3, "epsilon"), known / known.sum()
    )


def test_at_first_everybody_is_equally_likely():
    for unseen in ("zero", "epsilon"):
        np.testing.assert_allclose(probabilities([UNKNOWN] * 4, 30, unseen), 0.25)


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(UNKNOWN), min_size=1, max_size=30),
    st.floats(0, 1e4),
    st.sampled_from(["zero", "epsilon"]),
    st.integers(0, 40),
)
def test_chances_are_a_distribution_and_samples_are_distinct(similarities, tau, unseen, count):
    peers = np.arange(100, 100 + len(similarities))
    chances = softmax_probabilities(peers, np.array(similarities), tau, unseen)
    assert np.exp(chances.log_probabilities).sum() == pytest.approx(1.0)
    drawn = chances.sample(np.random.default_rng(0), count)
    assert len(set(drawn)) == len(drawn) == min(count, len(peers))
    assert set(drawn) <= set(peers.tolist())


def test_sampling_follows_the_distribution():
    """Drawing without replacement: the first draw follows p, the second p without the first."""
    chances = softmax_probabilities(np.arange(3), np.log([0.6, 0.3, 0.1]), 1.0)
    rng = np.random.default_rng(0)
    draws = [chances.sample(rng, 2) for _ in range(20_000)]
    first = np.bincount([draw[0] for draw in draws], minlength=3) / len(draws)
    np.testing.assert_allclose(first, [0.6, 0.3, 0.1], atol=0.015)
    after_zero = np.bincount([d[1] for d in draws if d[0] == 0], minlength=3)
    np.testing.assert_allclose(after_zero / after_zero.sum(), [0, 0.75, 0.25], atol=0.02)


def test_growing_temperature_depends_on_the_round_alone():
    """DAC-var: τ(t) = 1 + (τ_max − 1)(2σ(0.2 t) − 1), however often it is asked."""
    strategy = DAC(tau=30, temperature="growing")
    assert strategy.tau_at(0) == 1
    assert strategy.tau_at(5) == pytest.approx(1 + 29 * math.tanh(0.5))
    assert strategy.tau_at(5) == strategy.tau_at(5)
    assert strategy.tau_at(200) == pytest.approx(30)
    assert DAC(tau=30).tau_at(0) == 30


def test_min_max_rescales_known_similarities():
    np.testing.assert_array_equal(
        min_max(np.array([2.0, UNKNOWN, 6.0, 4.0])), [0.0, UNKNOWN, 1.0, 0.5]
    )


def test_min_max_of_equal_similarities_is_uniform():
    strategy = DAC(rescale=True, tau=30)
    strategy.table.record_scores({K1: 7.0, K2: 7.0})
    chances = strategy.sampling_probabilities(me())
    np.testing.assert_allclose(np.exp(chances.log_probabilities), 0.25)


def test_fedsim_by_hand():
    """Weights ∝ p_i(k), own weight the largest of them: (.5, .5, .2) / 1.2 for p = .5 and .2."""
    chances = softmax_probabilities(np.array([K1, K2, M1]), np.log([0.5, 0.2, 0.3]), 1.0)
    weights = federated_similarity(me(), [offer(K1), offer(K2)], chances)
    assert weights == pytest.approx({ME: 0.5 / 1.2, K1: 0.5 / 1.2, K2: 0.2 / 1.2})


def test_fedsim_of_vanishing_chances_keeps_their_proportions():
    chances = softmax_probabilities(np.array([K1, K2, M1]), np.array([0.0, -1.0, 1000.0]), 1.0)
    weights = federated_similarity(me(), [offer(K1), offer(K2)], chances)
    total = 2 + math.exp(-1)
    assert weights == pytest.approx({ME: 1 / total, K1: 1 / total, K2: math.exp(-1) / total})


def test_fedsim_alone():
    assert federated_similarity(
        me(), [], softmax_probabilities(np.arange(1), np.zeros(1), 1.0)
    ) == {ME: 1.0}


def play(strategy: DAC, losses: dict[int, float], tables: dict[int, dict[int, float]]) -> list:
    """Run one round in which all fetched peers answer; return the requests."""

    def answer(request: object) -> object:
        match request:
            case Fetch(peers):
                return [offer(peer, tables.get(peer)) for peer in peers]
            case Score(offers):
                return {each.peer: losses[each.peer] for each in offers}
            case AskScore(peers):
                return {peer: losses[peer] for peer in peers}
        return None

    return drive(strategy.round(me()), answer)


LOSSES = {K1: 0.5, K2: 2.0, M1: 1.0, M2: 0.0}


def test_a_round_in_order():
    strategy = DAC(fetches=4)
    asked = play(strategy, LOSSES, {})
    assert [type(request) for request in asked] == [Fetch, Score, Merge, Train]
    assert sorted(asked[0].peers) == [K1, K2, M1, M2]


def test_similarity_is_inverse_loss_and_no_loss_divides_by_zero():
    strategy = DAC(fetches=4)
    play(strategy, LOSSES, {})
    known = strategy.table.similarities(np.array([K1, K2, M1, M2]))
    assert known[:3].tolist() == [2.0, 0.5, 1.0]
    assert known[3] == 1e12


def test_the_other_direction_asks_the_others():
    """The paper's text: my model on their data."""
    asked = play(DAC(fetches=2, measured_by="them"), LOSSES, {})
    assert [type(request) for request in asked] == [Fetch, AskScore, Merge, Train]
    assert asked[1] == AskScore(asked[0].peers, "loss")


def test_weights_compare_alike_from_both_sides():
    """No peer is asked to measure a cosine: it is the same from both sides."""
    asked = play(DAC(fetches=2, measured_by="them", metric="cosine-weights"), LOSSES, {})
    assert [type(request) for request in asked] == [Fetch, Score, Merge, Train]
    assert asked[1].metric == "cosine"


def test_score_asked_of_the_others():
    asked = play(DAC(fetches=2, measured_by="them", metric="accuracy"), LOSSES, {})
    assert asked[1] == AskScore(asked[0].peers, "accuracy")


@pytest.mark.parametrize(("option", "value"), [
    ("alpha", 1.5), ("alpha", -0.1), ("tau", -1.0), ("tau", math.inf), ("tau", math.nan),
])  # fmt: skip
def test_options_out_of_range_are_refused(option, value):
    with pytest.raises(ConfigError, match=rf"strategy\.{option} = .* cannot be used"):
        make_strategy("dac", {option: value})


def test_without_two_hop_nothing_is_estimated():
    tables = {peer: dict.fromkeys(range(1, 5), 3.0) for peer in range(1, 5)}
    for two_hop in (True, False):
        strategy = DAC(fetches=1, two_hop=two_hop)
        play(strategy, LOSSES, tables)
        known = ~np.isnan(strategy.table.similarities(np.arange(1, 5)))
        assert known.sum() == (4 if two_hop else 1)


@pytest.mark.parametrize(("alpha", "metrics"), [
    (1.0, ["cosine-last-update"]),
    (0.0, ["cosine-total-update"]),
    (0.25, ["cosine-last-update", "cosine-total-update"]),
])  # fmt: skip
def test_cosine_of_gradients_asks_for_what_alpha_needs(alpha, metrics):
    """α = 1: the last local training only; α = 0: the change since the start only."""
    strategy = DAC(fetches=2, metric="cosine-gradients", alpha=alpha)
    asked = play(strategy, LOSSES, {})
    assert [request.metric for request in asked if isinstance(request, Score)] == metrics
    assert strategy.required_metrics() == set(metrics)
    chosen = np.array(asked[0].peers)
    np.testing.assert_allclose(
        strategy.table.similarities(chosen), [LOSSES[peer] for peer in chosen]
    )


@pytest.mark.parametrize(("alpha", "expected"), [(1.0, 0.8), (0.0, -0.4), (0.25, -0.1)])
def test_cosine_of_gradients_by_hand(alpha, expected):
    """α·cos(Δ_last) + (1−α)·cos(Δ_init) with 0.8 and −0.4."""
    cosines = {"cosine-last-update": 0.8, "cosine-total-update": -0.4}
    found = {}

    def measuring():
        found.update((yield from measure_similarities([offer(K1)], "cosine-gradients", alpha)))

    drive(measuring(), lambda request: {K1: cosines[request.metric]})
    assert found == pytest.approx({K1: expected})


def test_a_peer_without_one_of_both_changes_is_not_known():
    measuring = measure_similarities([offer(K1), offer(K2)], "cosine-gradients", 0.5)
    next(measuring)
    measuring.send({K1: 0.5, K2: 0.5})
    with pytest.raises(StopIteration) as finished:
        measuring.send({K2: 0.1})
    assert finished.value.value == pytest.approx({K2: 0.3})


def test_a_negative_cosine_is_a_value():
    strategy = DAC(fetches=4, metric="cosine-weights")
    play(strategy, {K1: -0.5, K2: 0.5, M1: 0.1, M2: -1.0}, {})
    assert strategy.table.is_measured(np.arange(1, 5)).all()
    assert strategy.table.similarities(np.array([K1, M2])).tolist() == [-0.5, -1.0]


def test_fedsim_uses_the_distribution_the_peers_were_sampled_from():
    """p_i of before this round's metrics_for, not after."""
    strategy = DAC(fetches=4, merge="fedsim", tau=1)
    strategy.table.record_scores({K1: 1.0, K2: 2.0})
    before = strategy.sampling_probabilities(me())
    (merge,) = (r for r in play(strategy, LOSSES, {}) if isinstance(r, Merge))
    expected = federated_similarity(me(), [offer(p) for p in (K1, K2, M1, M2)], before)
    assert merge.weights == pytest.approx(expected)
