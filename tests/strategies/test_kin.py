"""Kin: average or adopt, a whole round, and what each part of it is worth."""

from collections.abc import Iterator

import numpy as np
import pytest
from kin_parts import losses, me, offer, played
from worlds import layered_module

from coterie.adopting import average_or_adopt
from coterie.exchangeable import against, against_the_best
from coterie.strategies.base import Fetch, Listen, Merge, Tell, Train, Try, Validate
from coterie.strategies.kin import Kin

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

    def test_an_average_that_is_as_good_as_mine_but_not_as_the_best_is_not_taken(self):
        better = {1: self.mine - losses(*[0.5, 0.4] * 10)}
        plan = average_or_adopt(me(), self.mine, better, {1: 0.8})
        _, weights = played(plan, lambda request: self.mine)
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


class Network:
    """Answers a round of Kin: what models reach on my validation data, and on my training data."""

    mine = losses(*[1.0, 1.2] * 10)
    same = losses(*[0.1, -0.1] * 10)
    """As good as another, but not the same."""

    def __init__(self, validation, training, harm=0.0):
        self.models = {"validation": validation, "train": training}
        self.harm = harm
        """How much higher training will make my losses, half of them 1 more and half 1 less."""
        self.mine = Network.mine
        self.fetched = []

    def answer(self, request):
        match request:
            case Listen():
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
            case Try():
                return self.mine
        return None

    def play(self, kin):
        """Return what Kin asked, and q in the order in which models were fetched."""
        asked, _ = played(kin.round(me(num_samples=30)), self.answer)
        return asked, kin.table.of(np.array(self.fetched)).tolist()


mine, same = Network.mine, Network.same
PRACTISED = np.tile(losses(1.0, 1.2), 5)
"""As good on training data as on validation data."""


def test_a_round_by_hand():
    kin = Kin(fetches=2)
    network = Network([mine + same, mine + 7], [PRACTISED, PRACTISED + 7])
    asked, verdicts = network.play(kin)
    good, bad = network.fetched
    kinds = [type(each) for each in asked]
    judging, merging = [Validate, Validate, Tell], [Try, Merge]
    training = [Validate, Train, Validate, Train]
    assert kinds == [Validate, Listen, Fetch, *judging, *merging, *training]
    assert asked[5].values == dict(zip(network.fetched, verdicts, strict=True))
    assert verdicts[0] > 0.5 > verdicts[1] == 0.0
    assert sorted(asked[7].weights) == sorted([0, good])
    assert good in kin.neighbours()
    assert bad not in kin.neighbours()


def test_strangers_are_compared_on_all_that_i_train_on():
    network = Network([mine + same, mine - same], [PRACTISED, PRACTISED])
    asked, _ = network.play(Kin(fetches=2))
    peers = tuple(network.fetched)
    assert asked[3:5] == [Validate(peers), Validate(peers, "train")]


TUNING = Train(last_layers="classifier", only_if_better=True)


def trainings(asked):
    return [each for each in asked if isinstance(each, Train)]


@pytest.mark.parametrize(("harm", "is_tuned"), [(-0.5, True), (0.3, True), (0.5, False)])
def test_who_is_surely_made_worse_by_training_does_not_finetune(harm, is_tuned):
    """Of d = harm ± 1, z = 4.4·harm: z² is 4.8, 1.7 and 4.8, and ln 20 = 3.0."""
    network = Network([mine + same, mine - same], [PRACTISED, PRACTISED], harm)
    asked, _ = network.play(Kin(fetches=2))
    assert trainings(asked) == [Train(restrained=True), *([TUNING] if is_tuned else ())]


class TestWhoIsKnownWell:
    """Peers 1 to 3 are alike on validation data, 1 the best; 3 is bad on training data."""

    @property
    def theirs(self):
        noise = np.random.default_rng(0).normal(0, 0.1, (4, len(mine))).astype(np.float32)
        noise -= noise.mean(axis=1, keepdims=True)
        return {peer: mine + noise[peer] + np.float32(0.001 * peer) for peer in (1, 2, 3)}

    @property
    def practised(self):
        return {1: PRACTISED, 2: PRACTISED, 3: PRACTISED + losses(3, 4).repeat(5)}

    @property
    def by_validation(self):
        return against_the_best(self.theirs, {})

    def compared(self, *well_known, trust=True):
        """Return who is measured on training data, and q of all."""
        kin = Kin(fetches=3, trust=trust)
        kin.table.grow_older(me(), 1.0, len(mine))
        for _ in range(20):
            kin.table.judged(dict.fromkeys(well_known, 0.99))
        asked, found = played(kin._compare(self.theirs), lambda request: self.practised)
        assert {each.data for each in asked} <= {"train"}
        return [each.peers for each in asked], found

    def test_needs_no_more_proof(self):
        assert self.compared(1, 2, 3) == ([], self.by_validation)
        assert min(self.by_validation.values()) > 0.5

    def test_is_what_strangers_are_compared_with_if_it_is_the_best(self):
        asked, found = self.compared(1, 2)
        pair = {peer: self.theirs[peer] for peer in (1, 3)}
        assert asked == [(1, 3)]
        assert found == self.by_validation | against_the_best(pair, self.practised)
        assert found[3] < 0.5

    def test_is_not_measured_again_for_a_stranger_if_it_is_not_the_best(self):
        asked, found = self.compared(2)
        assert asked == [(1, 3)]
        assert found[2] == self.by_validation[2]

    def test_a_stranger_that_is_the_best_has_nobody_to_be_compared_with(self):
        assert self.compared(2, 3) == ([], self.by_validation)


def test_who_is_as_good_as_mine_but_not_as_the_best_is_no_kin():
    network = Network([mine - same, mine + same], [PRACTISED, PRACTISED + losses(3, 4).repeat(5)])
    _, verdicts = network.play(Kin(fetches=2))
    theirs, practised = (dict(enumerate(network.models[data])) for data in ("validation", "train"))
    alone, rivals = against(theirs, mine), against_the_best(theirs, practised)
    assert alone[1] > 0.5 > rivals[1]
    assert verdicts == [min(alone[0], rivals[0]), rivals[1]]


def test_the_best_of_them_is_no_kin_unless_it_is_as_good_as_mine():
    worse = mine + losses(*[2, 3] * 10)
    network = Network([worse, worse + same], [PRACTISED, PRACTISED])
    _, verdicts = network.play(Kin(fetches=2))
    theirs, practised = (dict(enumerate(network.models[data])) for data in ("validation", "train"))
    alone, rivals = against(theirs, mine), against_the_best(theirs, practised)
    assert min(rivals.values()) > 0.5 > max(alone.values())
    assert verdicts == [alone[0], alone[1]]


def in_silence(request):
    """Nobody says or offers anything."""
    match request:
        case Listen():
            return {}
        case Fetch():
            return []
        case Validate(peers=peers):
            return dict.fromkeys(peers, mine)
    return None


def test_when_nobody_answers_nobody_is_judged():
    asked, _ = played(Kin(fetches=2).round(me()), in_silence)
    assert {each.peers for each in asked if isinstance(each, Validate)} == {(0,), ()}
    assert [each for each in asked if isinstance(each, Merge)] == [Merge({0: 1.0})]


def test_what_is_known_fades_as_a_round_begins():
    kin = Kin(fetches=2)
    kin.table.grow_older(me(), 1.0, num_samples=10_000)
    kin.table.judged({3: 0.9})
    played(kin.round(me()), in_silence)
    chances = kin.table.chances(np.array([3, 4]))
    known, unknown = np.log(chances / (1 - chances))
    # Five others, two at a time: it takes 2.5 rounds to meet everybody.
    assert known - unknown == pytest.approx(np.log(9) * np.exp(-1 / 2.5))


def test_the_promising_are_fetched_and_the_unknown_tried():
    kin = Kin(fetches=3)
    kin.table.grow_older(me(known=30), period=10.0, num_samples=100)
    kin.table.judged({k: 0.99 if k <= 3 else 0.0 for k in range(1, 20)})
    counts = np.zeros(30)
    for seed in range(400):
        for peer in kin.chosen(me(known=30, seed=seed)):
            counts[peer] += 1
    assert counts[0] == 0
    assert counts[1:4].mean() > 2 * counts[20:].mean() > 2 * counts[4:20].mean() > 0


def test_a_jump_of_my_own_loss_makes_it_forget():
    kin = Kin()
    kin.table.grow_older(me(), period=1.0, num_samples=100)
    kin.table.judged({1: 0.9})
    calm = np.linspace(0.9, 1.1, 50, dtype=np.float32)
    kin._notice(calm)
    assert len(kin.neighbours()) == 1
    kin._notice(calm + 3)
    assert len(kin.neighbours()) == 0


class TestParts:
    """Each part can be left out, and then something is different."""

    def asked_without(self, part):
        kin = Kin(fetches=2, **{part: False})
        network = Network([mine + same, mine - same], [PRACTISED, PRACTISED])
        return network.play(kin)[0], kin

    def test_rivals(self):
        asked, _ = self.asked_without("rivals")
        assert {each.data for each in asked if isinstance(each, Validate)} == {"validation"}

    def test_trust(self):
        """Also who is known well has to prove itself on training data."""
        known = TestWhoIsKnownWell()
        found = against_the_best(known.theirs, known.practised)
        assert known.compared(1, 2, 3, trust=False) == ([(1, 2, 3)], found)
        assert found[3] < 0.5

    def test_replies(self):
        asked, _ = self.asked_without("replies")
        assert Tell not in map(type, asked)

    def test_hearsay(self):
        _, deaf = self.asked_without("hearsay")
        _, hearing = self.asked_without("replies")
        assert deaf.message() == {}
        assert len(hearing.message()["peers"]) > 0
        said = [kin.table.chances(np.array([5]))[0] for kin in (deaf, hearing)]
        assert said[0] < said[1]

    def test_adopt(self):
        asked, _ = self.asked_without("adopt")
        (weights,) = [each.weights for each in asked if isinstance(each, Merge)]
        assert Try not in map(type, asked)
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


def test_beliefs_say_which_verdicts_are_my_own():
    kin = Kin()
    kin.table.judged({1: 0.9})
    kin.table.told(me(), {2: 0.8})
    beliefs = kin.beliefs(me())
    assert beliefs.peers.tolist() == [1, 2]
    assert beliefs.similarities.tolist() == [0.9, 0.8]
    assert beliefs.measured.tolist() == [True, False]
