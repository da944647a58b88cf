"""Oracle: its true cluster only, merged by FedAvg or as Kin merges."""

from dataclasses import replace

import numpy as np
import pytest
from kin_parts import losses, me, played
from small_runs import assert_same_table, metrics_of

from coterie.strategies.oracle import Oracle
from coterie.strategies.parts.merging import federated_average
from coterie.strategies.requests import Fetch, Merge, Offer, Train, Validate, ValidateMerge
from coterie.strategies.strategy import GroundTruth

MINE = losses(*[1.0, 1.2] * 10)
RUINED = MINE + losses(*[4.0, 6.0] * 10)


def offers(peers):
    return [Offer(peer, 10 * peer, {}) for peer in peers]


def round_of(oracle, tried=MINE, theirs=MINE):
    """Play a round of peer 0 among six, of which the even ones are its cluster."""

    def answer(request):
        match request:
            case Fetch(peers=peers):
                return offers(peers)
            case Validate(peers=peers):
                return {peer: theirs if peer else MINE for peer in peers}
            case ValidateMerge():
                return tried
        return None

    oracle_me = replace(me(), truth=GroundTruth(np.arange(6) % 2))
    return played(oracle.round(oracle_me), answer)[0]


def test_without_adopt_it_is_the_federated_average():
    fetch, *rest = round_of(Oracle(fetches=2))
    assert sorted(fetch.peers) == [2, 4]
    assert rest == [Merge(federated_average(me(), offers(fetch.peers))), Train()]
    assert rest[0].weights[4] == pytest.approx(40 / 70)


def test_with_adopt_everybody_of_the_cluster_is_averaged_alike():
    fetch, *rest = round_of(Oracle(fetches=2, adopt=True))
    assert sorted(fetch.peers) == [2, 4]
    average = {0: 1 / 3, fetch.peers[0]: 1 / 3, fetch.peers[1]: 1 / 3}
    assert rest == [
        Validate((0,)),
        Validate(fetch.peers),
        ValidateMerge(average),
        Merge(average),
        Train(),
    ]


def test_with_adopt_what_does_not_average_is_not_averaged():
    *_, merge, _ = round_of(Oracle(fetches=2, adopt=True), tried=RUINED, theirs=RUINED)
    assert merge == Merge({0: 1.0})
    better = MINE - losses(*[0.5, 0.4] * 10)
    *_, merge, _ = round_of(Oracle(fetches=2, adopt=True), tried=RUINED, theirs=better)
    assert merge == Merge({2: 1.0})


def test_with_adopt_only_the_true_cluster_is_merged(make_simulation):
    with make_simulation(lambda: Oracle(fetches=2, adopt=True), initialisation="independent") as s:
        while not s.finished:
            columns = s.advance().exchanges.columns()
            assert (columns["sender"] % 2 == columns["receiver"] % 2).all()


def test_adopt_changes_the_merge_and_only_the_merge(make_simulation):
    tables, fetched = [], []
    for adopt in (False, True):
        make = lambda adopt=adopt: Oracle(fetches=2, adopt=adopt)  # noqa: E731
        settings = {"initialisation": "independent", "training": {"learning_rate": 0.05}}
        with make_simulation(make, rounds=4, **settings) as simulation:
            simulation.advance()
            columns = simulation.advance().exchanges.columns()
            fetched.append((columns["receiver"].tolist(), columns["sender"].tolist()))
        with make_simulation(make, rounds=4, **settings) as simulation:
            tables.append(metrics_of(simulation))
    assert fetched[0] == fetched[1]
    with pytest.raises(AssertionError):
        assert_same_table(*tables)
