"""The peers online and the messages that arrive: drawn from keys, the same after a resume."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import ConfigError
from coterie.runtime.settings import Absence, NetworkSettings
from coterie.runtime.unreliable_network import UnreliableNetwork


def network(num_peers: int = 10, seed: int = 0, **settings: object) -> UnreliableNetwork:
    return UnreliableNetwork(NetworkSettings(**settings), num_peers, seed)


def absent(peer: int, first: int, last: int) -> Absence:
    return Absence(peer=peer, first_round=first, last_round=last)


def test_by_default_everybody_is_there_and_everything_arrives():
    perfect = network()
    for number in range(20):
        assert perfect.start_round(number).all()
        assert all(perfect.draw_delivery(peer) for peer in range(10))


def test_nobody_is_offline_in_round_0():
    cut_off = network(offline_probability=1.0)
    assert cut_off.start_round(0).tolist() == [True] * 10
    assert cut_off.start_round(1).tolist() == [False] * 10


def test_probability_1_takes_everybody_offline_in_every_later_round():
    cut_off = network(100, offline_probability=1.0)
    assert not any(cut_off.start_round(number).any() for number in range(1, 50))


def test_a_probability_is_met_on_average():
    shaky = network(200, offline_probability=0.3)
    online = np.array([shaky.start_round(number) for number in range(1, 201)])
    # 40 000 draws: the standard deviation of their mean is 0.0023.
    assert 1 - online.mean() == pytest.approx(0.3, abs=0.01)
    # No peer and no round is luckier than the others.
    assert np.abs(online.mean(axis=0) - 0.7).max() < 0.15
    assert np.abs(online.mean(axis=1) - 0.7).max() < 0.15


def test_a_trace_includes_its_first_and_last_round():
    traced = network(4, offline_trace=(absent(2, 3, 5),))
    seen = [traced.start_round(number).tolist() for number in range(8)]
    expected = [[True, True, not 3 <= number <= 5, True] for number in range(8)]
    assert seen == expected


def test_traces_add_up_and_one_round_is_enough():
    traced = network(3, offline_trace=(absent(0, 1, 1), absent(0, 3, 3), absent(1, 3, 4)))
    offline = [np.flatnonzero(~traced.start_round(number)).tolist() for number in range(6)]
    assert offline == [[], [0], [], [0, 1], [1], []]


def test_a_trace_adds_to_the_random_absences():
    without = network(50, offline_probability=0.5)
    both = network(50, offline_probability=0.5, offline_trace=(absent(7, 1, 30),))
    for number in range(1, 31):
        expected = without.start_round(number).copy()
        expected[7] = False
        assert both.start_round(number).tolist() == expected.tolist()


@pytest.mark.parametrize(("probability", "arrives"), [(0.0, True), (1.0, False)])
def test_loss_probabilities_0_and_1(probability, arrives):
    lossy = network(loss_probability=probability)
    for number in range(5):
        lossy.start_round(number)
        assert {lossy.draw_delivery(peer) for peer in range(10) for _ in range(20)} == {arrives}


def test_a_loss_probability_is_met_on_average():
    lossy = network(20, loss_probability=0.2)
    arrived = []
    for number in range(100):
        lossy.start_round(number)
        arrived += [lossy.draw_delivery(peer) for peer in range(20) for _ in range(10)]
    assert 1 - np.mean(arrived) == pytest.approx(0.2, abs=0.015)


def failures(
    lossy: UnreliableNetwork, order: list[int]
) -> tuple[list[list[bool]], dict[int, list[bool]]]:
    """Return the peers online and, for each asker, which of its messages arrived."""
    online, arrived = [], {peer: [] for peer in sorted(set(order))}
    for number in range(1, 6):
        online.append(lossy.start_round(number).tolist())
        for asker in order:
            arrived[asker].append(lossy.draw_delivery(asker))
    return online, arrived


def test_the_same_seed_gives_the_same_failures_and_another_one_others():
    def failed(seed: int) -> object:
        return failures(
            network(6, seed, offline_probability=0.4, loss_probability=0.4), [0, 1, 2] * 10
        )

    assert failed(3) == failed(3)
    online, arrived = failed(3)
    other_online, other_arrived = failed(4)
    assert online != other_online
    assert arrived != other_arrived


def test_failures_do_not_depend_on_the_order_in_which_others_ask():
    lossy = {"loss_probability": 0.5, "num_peers": 4}
    _, in_turn = failures(network(**lossy), [0, 1, 2, 3] * 6)
    _, one_by_one = failures(network(**lossy), [3] * 6 + [1] * 6 + [0] * 6 + [2] * 6)
    _, alone = failures(network(**lossy), [2] * 6)
    assert in_turn == one_by_one
    assert in_turn[2] == alone[2]
    assert len({tuple(arrived) for arrived in in_turn.values()}) == 4


def test_failures_of_a_round_do_not_depend_on_the_rounds_before():
    lossy = {"loss_probability": 0.5, "offline_probability": 0.5}
    steady, resumed = network(**lossy), network(**lossy)
    for number in range(1, 8):
        online = steady.start_round(number)
        arrived = [steady.draw_delivery(peer) for peer in range(10) for _ in range(number)]
    assert resumed.start_round(7).tolist() == online.tolist()
    assert [resumed.draw_delivery(peer) for peer in range(10) for _ in range(7)] == arrived


def test_messages_of_different_rounds_fail_independently():
    lossy = network(loss_probability=0.5)
    rounds = []
    for number in range(8):
        lossy.start_round(number)
        rounds.append(tuple(lossy.draw_delivery(0) for _ in range(30)))
    assert len(set(rounds)) == 8


@pytest.mark.parametrize("peer", [10, 11, 1000])
def test_a_trace_of_a_peer_that_does_not_exist_is_refused(peer):
    settings = NetworkSettings(offline_trace=(absent(0, 1, 2), absent(peer, 1, 2)))
    with pytest.raises(ConfigError, match=rf"peer {peer}, but the 10 peers are numbered 0 to 9"):
        settings.check(10)


def test_the_last_peer_may_be_absent():
    assert network(10, offline_trace=(absent(9, 1, 1),)).start_round(1).tolist() == [True] * 9 + [
        False
    ]


@pytest.mark.parametrize("name", ["offline_probability", "loss_probability"])
@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_probabilities_lie_between_0_and_1(name, value):
    with pytest.raises(ConfigError, match=name):
        network(**{name: value})
