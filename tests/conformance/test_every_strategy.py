"""What every strategy must satisfy, whatever it does; new ones are picked up by themselves."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from plans import drive

from coterie.errors import ConfigError
from coterie.runtime.checkpoints import Checkpoints
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies._skeleton import Skeleton
from coterie.strategies.requests import (
    AskScore,
    Fetch,
    Merge,
    Offer,
    Receive,
    ReceiveReports,
    Report,
    Score,
    Send,
    Train,
    Validate,
    ValidateMerge,
)
from coterie.strategies.server.server_strategy import (
    Aggregate,
    ScoreClients,
    Server,
    ServerStrategy,
    TrainClients,
    TrainPooled,
)
from coterie.strategies.strategy import MOST_LISTED, GroundTruth, Me, Strategy

ASKING = (Fetch, Send, AskScore, Report)
"""Requests that name other peers."""
NUM_PEERS = 12
TRUTH = GroundTruth(np.arange(NUM_PEERS) % 3)
EVERY = {**STRATEGIES, Skeleton.name: Skeleton}
PEER_STRATEGIES = [name for name, kind in EVERY.items() if issubclass(kind, Strategy)]
SERVER_STRATEGIES = [name for name, kind in EVERY.items() if issubclass(kind, ServerStrategy)]
SHORT = {
    "pens": {"exploration_rounds": 2, "samples": 6},
    "panm": {"confident_rounds": 2, "candidates": 4},
    "delusional-oracle": {"from_round": 3},
}
"""Strategies with phases: all of them come up within the few rounds played here."""


class Answerer:
    """Answers a strategy's requests with made-up numbers and keeps what was asked."""

    def __init__(self, *, answering: bool = True, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.answering = answering
        self.asked: list[object] = []

    def drive(self, strategy: Strategy, me: Me) -> None:
        self.asked += drive(strategy.round(me), self.answer)

    def answer(self, request: object) -> object:
        match request:
            case Fetch(peers):
                return [self.offer(peer) for peer in peers] if self.answering else []
            case AskScore(peers):
                return {peer: self.rng.random() for peer in peers} if self.answering else {}
            case Score(offers):
                return {offer.peer: self.rng.random() + 0.1 for offer in offers}
            case Validate(peers):
                return {peer: self.losses() for peer in peers}
            case ValidateMerge():
                return self.losses()
            case ReceiveReports():
                return {1: 0.75, 2: 0.25} if self.answering else {}
            case Receive():
                return [self.offer(1), self.offer(2)] if self.answering else []
            case Train():
                return 1.0
        return None

    def losses(self) -> np.ndarray:
        return self.rng.exponential(size=20).astype(np.float32)

    def offer(self, peer: int) -> Offer:
        return Offer(peer, int(self.rng.integers(1, 100)), {})


def me_in(
    round_number: int, strategy: Strategy, *, peer: int = 0, num_peers: int = NUM_PEERS
) -> Me:
    return Me(
        peer=peer,
        round=round_number,
        known=np.arange(num_peers),
        num_samples=50,
        rng=np.random.default_rng((peer, round_number)),
        truth=GroundTruth(np.arange(num_peers) % 3) if strategy.uses_ground_truth else None,
    )


def new(name: str) -> Strategy:
    strategy = EVERY[name](**SHORT.get(name, {}))
    assert isinstance(strategy, Strategy)
    return strategy


def play(strategy: Strategy, rounds: range, **kwargs) -> list[object]:
    answerer = Answerer(**kwargs)
    for number in rounds:
        answerer.rng = np.random.default_rng(number)
        answerer.drive(strategy, me_in(number, strategy))
    return answerer.asked


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_is_deterministic(name):
    assert play(new(name), range(1, 6)) == play(new(name), range(1, 6))


@pytest.mark.parametrize("name", PEER_STRATEGIES)
@pytest.mark.parametrize("peer", [0, 5, NUM_PEERS - 1])
def test_never_chooses_itself(name, peer):
    strategy = new(name)
    for number in range(1, 8):
        answerer = Answerer()
        answerer.drive(strategy, me_in(number, strategy, peer=peer))
        chosen = [p for r in answerer.asked if isinstance(r, ASKING) for p in r.peers]
        assert peer not in chosen
        assert all(0 <= other < NUM_PEERS for other in chosen)


@pytest.mark.parametrize("name", PEER_STRATEGIES)
@pytest.mark.parametrize("answering", [True, False])
def test_merge_weights_are_finite_and_sum_to_one(name, answering):
    merges = [r for r in play(new(name), range(1, 8), answering=answering) if isinstance(r, Merge)]
    for merge in merges:
        assert all(math.isfinite(weight) for weight in merge.weights.values())
        assert sum(merge.weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_survives_that_nobody_answers(name):
    asked = play(new(name), range(1, 5), answering=False)
    assert sum(isinstance(request, Train) for request in asked) >= 4
    for merge in (request for request in asked if isinstance(request, Merge)):
        assert set(merge.weights) == {0}


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_one_peer_alone_in_the_network_works(name):
    strategy = new(name)
    answerer = Answerer(answering=False)
    for number in range(1, 5):
        answerer.drive(strategy, me_in(number, strategy, num_peers=1))
    assert not [p for r in answerer.asked if isinstance(r, ASKING) for p in r.peers]
    assert any(isinstance(request, Train) for request in answerer.asked)


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_state_saves_and_restores(name, tmp_path):
    """A strategy restored from a file goes on exactly as the one that was never interrupted."""
    steady = new(name)
    first_half = play(steady, range(1, 4))
    assert first_half
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(3, {"state": steady.save()})
    restored = new(name)
    read = checkpoints.read_newest(pytest.fail)
    assert read is not None
    restored.restore(read["state"])
    assert play(restored, range(4, 7)) == play(steady, range(4, 7))


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_state_does_not_grow_with_the_network(name):
    """Also Kin's and DAC's tables: a peer lists only the peers it has heard of."""
    strategy, num_peers = new(name), 3 * MOST_LISTED
    answerer = Answerer()
    for number in range(1, 5):
        answerer.drive(strategy, me_in(number, strategy, peer=5000, num_peers=num_peers))
    chosen = [p for r in answerer.asked if isinstance(r, ASKING) for p in r.peers]
    assert 5000 not in chosen
    assert all(0 <= other < num_peers for other in chosen)
    arrays = [*_arrays(strategy.save()), *strategy.message().values()]
    assert sum(array.size for array in arrays) < num_peers / 4


def _arrays(state: object) -> list[np.ndarray]:
    if isinstance(state, dict):
        return [array for part in state.values() for array in _arrays(part)]
    return [state] if isinstance(state, np.ndarray) else []


@pytest.mark.parametrize("name", PEER_STRATEGIES)
def test_message_is_named_arrays(name):
    strategy = new(name)
    play(strategy, range(1, 4))
    for key, value in strategy.message().items():
        assert isinstance(key, str)
        assert isinstance(value, np.ndarray)


@pytest.mark.parametrize("name", PEER_STRATEGIES)
@pytest.mark.parametrize("num_rounds", [0, 1, 5])
def test_telling_beliefs_changes_nothing(name, num_rounds):
    strategy = new(name)
    play(strategy, range(1, num_rounds + 1))
    before = copy.deepcopy(strategy.save())
    me = me_in(num_rounds + 1, strategy)
    beliefs = strategy.estimates(me)
    np.testing.assert_equal(strategy.save(), before)
    if beliefs is not None:
        count = len(beliefs.peers)
        assert (count > 0) == (num_rounds > 0)
        assert set(beliefs.peers) <= set(me.others)
        assert np.isfinite(beliefs.similarities).all()
        assert beliefs.measured.shape == beliefs.similarities.shape == (count,)
        assert beliefs.probabilities.shape == (count,)
        assert np.isnan(beliefs.probabilities).all() or (
            (beliefs.probabilities >= 0).all() and beliefs.probabilities.sum() < 1 + 1e-9
        )


@pytest.mark.parametrize("name", list(EVERY))
def test_refuses_the_state_of_another_version(name):
    with pytest.raises(ConfigError, match="another version"):
        EVERY[name]().restore({"no such field": 1})


@pytest.mark.parametrize("name", list(EVERY))
def test_options_are_plain_and_make_the_same_strategy(name):
    options = EVERY[name]().options()
    assert json.loads(json.dumps(options)) == options
    if name in STRATEGIES:
        assert make_strategy(name, options).options() == options


@pytest.mark.parametrize("name", list(EVERY))
def test_says_what_it_is(name):
    kind = EVERY[name]
    assert kind.name == name
    assert len(kind.summary) > 10
    assert kind.__doc__


@pytest.mark.parametrize("name", list(EVERY))
def test_more_fetches_than_others_are_refused(name):
    options = EVERY[name]().options()
    if "fetches" not in options:
        EVERY[name]().check(1)
        return
    # Who asks more peers than it fetches from must ask at least as many.
    asking = {"samples": 10} if "samples" in options else {}
    strategy = EVERY[name](**{**options, **asking, "fetches": 10})
    # A peer has one other less than there are peers; a server may sample all its clients.
    enough = 11 if name in PEER_STRATEGIES else 10
    strategy.check(enough)
    with pytest.raises(ConfigError, match="at most 9"):
        strategy.check(enough - 1)


def test_only_yardsticks_see_the_truth():
    seeing = {name for name, kind in EVERY.items() if kind.uses_ground_truth}
    assert seeing == {"oracle", "delusional-oracle", "central"}


@pytest.mark.parametrize("name", [n for n in PEER_STRATEGIES if EVERY[n].uses_ground_truth])
def test_yardsticks_fail_loudly_without_the_truth(name):
    strategy = new(name)
    blind = me_in(1, strategy)
    blind = Me(blind.peer, blind.round, blind.known, blind.num_samples, blind.rng, truth=None)
    with pytest.raises(RuntimeError, match="hidden"):
        next(strategy.round(blind))


def play_server(strategy: ServerStrategy, clients: np.ndarray, *, answering: bool) -> list[object]:
    def answer(request: object) -> object:
        match request:
            case TrainClients(models):
                return dict.fromkeys(models, 30.0) if answering else {}
            case ScoreClients(asked_clients):
                losses = [1.0] * strategy.num_models(3)
                return dict.fromkeys(asked_clients, losses) if answering else {}
        return None

    asked = []
    for number in range(1, 5):
        truth = TRUTH if strategy.uses_ground_truth else None
        server = Server(number, clients, np.random.default_rng(number), truth)
        asked += drive(strategy.round(server), answer)
    return asked


@pytest.mark.parametrize("name", SERVER_STRATEGIES)
@pytest.mark.parametrize("answering", [True, False])
@pytest.mark.parametrize("num_clients", [0, 1, NUM_PEERS])
def test_server_strategies(name, answering, num_clients):
    """Deterministic; weights sum to 1; only known models and clients; answers may be missing."""
    clients = np.arange(num_clients)
    strategy = EVERY[name]()
    asked = play_server(strategy, clients, answering=answering)
    assert asked == play_server(EVERY[name](), clients, answering=answering)
    models = range(strategy.num_models(3))
    truth = TRUTH if strategy.uses_ground_truth else None
    assert all(strategy.model_of(peer, truth) in models for peer in range(NUM_PEERS))
    for request in asked:
        match request:
            case Aggregate(model, weights):
                assert model in models
                assert sum(weights.values()) == pytest.approx(1.0)
                assert answering
            case TrainClients(assigned):
                assert set(assigned) <= set(clients.tolist())
                assert set(assigned.values()) <= set(models)
            case TrainPooled(pools):
                assert set(pools) <= set(models)
                assert sorted(p for peers in pools.values() for p in peers) == clients.tolist()
