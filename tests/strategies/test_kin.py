"""Kin: average or adopt, a whole round, and what each part of it is worth."""

from collections.abc import Iterator

import numpy as np
import pytest
from kin_parts import losses, me, offer, played
from small_runs import layered_module

from coterie.strategies.kin.average_or_adopt import average_or_adopt
from coterie.strategies.kin.kin import Kin
from coterie.strategies.kin.paired_test import compare, compare_with_best
from coterie.strategies.requests import (
    Fetch,
    Merge,
    ReceiveReports,
    Report,
    Train,
    Validate,
    ValidateMerge,
)

PARTS = [name for name, value in Kin().options().items() if value is True]


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
        assert [type(each) for each in asked] == [ValidateMerge]

    def test_dissimilar_models_are_left_out(self):
        _, weights = self.weights([self.mine])
        assert 2 not in weights

    def test_models_that_do_not_average_are_not_averaged(self):
        ruined = self.mine + 5
        asked, weights = self.weights([ruined, ruined])
        assert weights == {0: 1.0}
        assert len(asked) == 2

    def test_a_better_model_is_adopted(self):
        better = {1: self.mine - losses(*[0.5, 0.4] * 10)}
        plan = average_or_adopt(me(), self.mine, better, {1: 0.8})
        _, weights = played(plan, lambda request: self.mine + 5)
        assert weights == {1: 1.0}

    def test_an_average_that_is_as_good_as_mine_but_not_as_the_best_is_not_taken(self):
        better = {1: self.mine - losses(*[0.5, 0.4] * 10)}
        plan = average_or_adopt(me(), self.mine, better, {1: 0.8})
        _, weights = played(plan, lambda request: self.mine)
        assert weights == {1: 1.0}

    def test_the_soup_takes_models_that_do_not_make_it_worse(self):
        theirs = {k: self.mine + losses(*[0.01 * k, 0.0] * 10) for k in (1, 2, 3)}
        found = dict.fromkeys(theirs, 0.8)

        def validate(request):
            return self.mine + 5 if 2 in request.weights else self.mine

        _, weights = played(average_or_adopt(me(), self.mine, theirs, found), validate)
        assert sorted(weights) == [0, 1, 3]
        assert weights[1] == pytest.approx(0.8 / 2.6)

    def test_without_fetched_models_nothing_is_validated(self):
        assert played(average_or_adopt(me(), self.mine, {}, {}), None) == ([], {0: 1.0})


class Network:
    """Answers a round of Kin: losses of models on validation data, and on training data."""

    mine = losses(*[1.0, 1.2] * 10)
    same = losses(*[0.1, -0.1] * 10)
    """Added to losses: different, but as good."""

    def __init__(self, validation, training, harm=0.0):
        self.models = {"validation": validation, "train": training}
        self.harm = harm
        """How much training raises the losses: half of them 1 more, and half 1 less."""
        self.mine = Network.mine
        self.fetched = []

    def answer(self, request):
        match request:
            case ReceiveReports():
                return {4: 1.0}
            case Train(last_layers=None):
                self.mine = self.mine + losses(*[self.harm + 1, self.harm - 1] * 10)
            case Validate(peers=(0,)):
                return {0: self.mine}
            case Fetch(peers=peers):
                self.fetched = list(peers)
                return [offer(peer, {5: 0.9}) for peer in peers]
            case Validate(peers=peers, data=data):
                answers = self.models[data]
                return {peer: answers[self.fetched.index(peer)] for peer in peers}
            case ValidateMerge():
                return self.mine
        return None

    def play(self, kin):
        """Return the requests, and q in the order in which models were fetched."""
        asked, _ = played(kin.round(me(num_samples=30)), self.answer)
        return asked, kin.evidence.test_results(np.array(self.fetched)).tolist()


mine, same = Network.mine, Network.same
IN_TRAINING = np.tile(losses(1.0, 1.2), 5)
"""As good on training data as on validation data."""


def test_a_round_by_hand():
    kin = Kin(fetches=2)
    network = Network([mine + same, mine + 7], [IN_TRAINING, IN_TRAINING + 7])
    asked, results = network.play(kin)
    good, bad = network.fetched
    kinds = [type(each) for each in asked]
    testing, merging = [Validate, Validate, Report], [ValidateMerge, Merge]
    training = [Validate, Train, Validate, Train]
    assert kinds == [Validate, ReceiveReports, Fetch, *testing, *merging, *training]
    assert asked[5].values == dict(zip(network.fetched, results, strict=True))
    assert results[0] > 0.5 > results[1] == 0.0
    assert sorted(asked[7].weights) == sorted([0, good])
    assert good in kin.neighbours()
    assert bad not in kin.neighbours()


def test_peers_not_surely_similar_are_tested_on_training_data_too():
    network = Network([mine + same, mine - same], [IN_TRAINING, IN_TRAINING])
    asked, _ = network.play(Kin(fetches=2))
    peers = tuple(network.fetched)
    assert asked[3:5] == [Validate(peers), Validate(peers, "train")]


TUNING = Train(last_layers="classifier", only_if_better=True)


def trainings(asked):
    return [each for each in asked if isinstance(each, Train)]


@pytest.mark.parametrize(("harm", "is_tuned"), [(-0.5, True), (0.3, True), (0.5, False)])
def test_no_finetuning_where_training_surely_did_harm(harm, is_tuned):
    """Of d = harm ± 1, z = 4.4·harm: z² is 4.8, 1.7 and 4.8, and ln 20 = 3.0."""
    network = Network([mine + same, mine - same], [IN_TRAINING, IN_TRAINING], harm)
    asked, _ = network.play(Kin(fetches=2))
    assert trainings(asked) == [Train(restrained=True), *([TUNING] if is_tuned else ())]


class TestSurelySimilarPeers:
    """Peers 1 to 3 are alike on validation data, 1 the best; 3 is bad on training data."""

    @property
    def theirs(self):
        noise = np.random.default_rng(0).normal(0, 0.1, (4, len(mine))).astype(np.float32)
        noise -= noise.mean(axis=1, keepdims=True)
        return {peer: mine + noise[peer] + np.float32(0.001 * peer) for peer in (1, 2, 3)}

    @property
    def in_training(self):
        return {1: IN_TRAINING, 2: IN_TRAINING, 3: IN_TRAINING + losses(3, 4).repeat(5)}

    @property
    def by_validation(self):
        return compare_with_best(self.theirs, {})

    def compared(self, *surely_similar, trust=True):
        """Return the peers tested on training data, and q of all."""
        kin = Kin(fetches=3, trust=trust)
        kin.evidence.start_round(1.0, len(mine))
        for _ in range(20):
            kin.evidence.record_test_results(dict.fromkeys(surely_similar, 0.99))
        asked, found = played(kin._test_against_best(self.theirs), lambda request: self.in_training)
        assert {each.data for each in asked} <= {"train"}
        return [each.peers for each in asked], found

    def test_need_no_test_on_training_data(self):
        assert self.compared(1, 2, 3) == ([], self.by_validation)
        assert min(self.by_validation.values()) > 0.5

    def test_are_the_reference_for_others_if_they_are_the_best(self):
        asked, found = self.compared(1, 2)
        pair = {peer: self.theirs[peer] for peer in (1, 3)}
        assert asked == [(1, 3)]
        assert found == self.by_validation | compare_with_best(pair, self.in_training)
        assert found[3] < 0.5

    def test_are_not_tested_again_if_they_are_not_the_best(self):
        asked, found = self.compared(2)
        assert asked == [(1, 3)]
        assert found[2] == self.by_validation[2]

    def test_a_best_model_alone_on_training_data_is_compared_with_none(self):
        assert self.compared(2, 3) == ([], self.by_validation)


def test_a_model_as_good_as_mine_but_not_as_the_best_fails():
    network = Network(
        [mine - same, mine + same], [IN_TRAINING, IN_TRAINING + losses(3, 4).repeat(5)]
    )
    _, results = network.play(Kin(fetches=2))
    theirs, in_training = (
        dict(enumerate(network.models[data])) for data in ("validation", "train")
    )
    alone, rivals = compare(theirs, mine), compare_with_best(theirs, in_training)
    assert alone[1] > 0.5 > rivals[1]
    assert results == [min(alone[0], rivals[0]), rivals[1]]


def test_the_best_model_fails_unless_it_is_as_good_as_mine():
    worse = mine + losses(*[2, 3] * 10)
    network = Network([worse, worse + same], [IN_TRAINING, IN_TRAINING])
    _, results = network.play(Kin(fetches=2))
    theirs, in_training = (
        dict(enumerate(network.models[data])) for data in ("validation", "train")
    )
    alone, rivals = compare(theirs, mine), compare_with_best(theirs, in_training)
    assert min(rivals.values()) > 0.5 > max(alone.values())
    assert results == [alone[0], alone[1]]


def in_silence(request):
    """No peer reports or offers anything."""
    match request:
        case ReceiveReports():
            return {}
        case Fetch():
            return []
        case Validate(peers=peers):
            return dict.fromkeys(peers, mine)
    return None


def test_without_answers_no_model_is_tested():
    asked, _ = played(Kin(fetches=2).round(me()), in_silence)
    assert {each.peers for each in asked if isinstance(each, Validate)} == {(0,), ()}
    assert [each for each in asked if isinstance(each, Merge)] == [Merge({0: 1.0})]


def test_evidence_fades_as_a_round_begins():
    kin = Kin(fetches=2)
    kin.evidence.start_round(1.0, num_samples=10_000)
    kin.evidence.record_test_results({3: 0.9})
    played(kin.round(me()), in_silence)
    probabilities = kin.evidence.similarity_probabilities(np.array([3, 4]))
    known, unknown = np.log(probabilities / (1 - probabilities))
    # Five others, two at a time: it takes 2.5 rounds to fetch from all.
    assert known - unknown == pytest.approx(np.log(9) * np.exp(-1 / 2.5))


def test_similar_peers_are_fetched_and_unknown_ones_explored():
    kin = Kin(fetches=3)
    kin.evidence.start_round(period=10.0, num_samples=100)
    kin.evidence.record_test_results({k: 0.99 if k <= 3 else 0.0 for k in range(1, 20)})
    counts = np.zeros(30)
    for seed in range(400):
        for peer in kin.sample_peers(me(known=30, seed=seed)):
            counts[peer] += 1
    assert counts[0] == 0
    assert counts[1:4].mean() > 2 * counts[20:].mean() > 2 * counts[4:20].mean() > 0


def test_a_jump_of_the_own_loss_clears_the_evidence():
    kin = Kin()
    kin.evidence.start_round(period=1.0, num_samples=100)
    kin.evidence.record_test_results({1: 0.9})
    calm = np.linspace(0.9, 1.1, 50, dtype=np.float32)
    kin._update_evidence(me(), calm, {})
    assert len(kin.neighbours()) == 1
    kin._update_evidence(me(), calm + 3, {})
    assert len(kin.neighbours()) == 0


class TestParts:
    """Each part can be left out, and then something is different."""

    def asked_without(self, part):
        kin = Kin(fetches=2, **{part: False})
        network = Network([mine + same, mine - same], [IN_TRAINING, IN_TRAINING])
        return network.play(kin)[0], kin

    def test_rivals(self):
        asked, _ = self.asked_without("rivals")
        assert {each.data for each in asked if isinstance(each, Validate)} == {"validation"}

    def test_trust(self):
        """Surely similar peers are tested on training data, too."""
        known = TestSurelySimilarPeers()
        found = compare_with_best(known.theirs, known.in_training)
        assert known.compared(1, 2, 3, trust=False) == ([(1, 2, 3)], found)
        assert found[3] < 0.5

    def test_replies(self):
        asked, _ = self.asked_without("replies")
        assert Report not in map(type, asked)

    def test_hearsay(self):
        _, deaf = self.asked_without("hearsay")
        _, hearing = self.asked_without("replies")
        assert deaf.message() == {}
        assert len(hearing.message()["peers"]) > 0
        said = [kin.evidence.similarity_probabilities(np.array([5]))[0] for kin in (deaf, hearing)]
        assert said[0] < said[1]

    def test_adopt(self):
        asked, _ = self.asked_without("adopt")
        (weights,) = [each.weights for each in asked if isinstance(each, Merge)]
        assert ValidateMerge not in map(type, asked)
        assert weights[0] == pytest.approx(30 / 50)  # by numbers of samples, 30 and twice 10

    def test_restraint(self):
        asked, _ = self.asked_without("restraint")
        assert trainings(asked) == [Train(), TUNING]
        assert trainings(self.asked_without("adopt")[0]) == [Train(restrained=True), TUNING]

    def test_finetune(self):
        asked, _ = self.asked_without("finetune")
        assert trainings(asked) == [Train(restrained=True)]

    def test_these_are_all(self):
        assert {f"test_{part}" for part in PARTS} <= set(dir(self))


@pytest.mark.slow
def test_every_part_changes_results(make_simulation):
    """Compared round by round, up to the first that differs."""

    def rounds(**options) -> Iterator[dict[str, np.ndarray]]:
        with make_simulation(
            lambda: Kin(fetches=3, **options),
            [30] * 8,
            module=layered_module,
            rounds=6,
            initialisation="independent",
            training={"learning_rate": 0.05},
        ) as simulation:
            while not simulation.finished:
                yield simulation.advance().measures

    whole = list(rounds())
    for part in PARTS:
        pairs = zip(whole, rounds(**{part: False}), strict=True)
        assert any(differ(one, other) for one, other in pairs), part


def differ(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    assert one.keys() == other.keys()
    return any(not np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_estimates_say_which_results_are_own():
    kin = Kin()
    kin.evidence.record_test_results({1: 0.9})
    kin.evidence.record_reports(me(), {2: 0.8})
    estimates = kin.estimates(me())
    assert estimates.peers.tolist() == [1, 2]
    assert estimates.similarities.tolist() == [0.9, 0.8]
    assert estimates.measured.tolist() == [True, False]


def test_state_has_the_names_of_earlier_checkpoints():
    saved = Kin().save()
    assert set(saved) == {"table", "judged", "losses"}
    columns = {"peers", "verdicts", "own", "doubted", "ages", "evidence", "hearsay", "turned"}
    assert set(saved["table"]) == columns
    Kin().restore(saved)
