"""How many models travel, in random networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import PEER_STRATEGIES, Network, Watch, few, networks

from coterie.runtime.exchange_log import SERVER
from coterie.runtime.round import Round
from coterie.strategies import STRATEGIES


@few(25)
@given(networks())
def test_what_is_received_was_sent(network):
    """In all, models and bytes received are those sent but for the lost ones."""
    for now in Watch(network).rounds():
        tables = now.tables()
        rows = tables["exchanges"]
        lost = ~rows["delivered"]
        between_peers = (rows["receiver"] != SERVER) & (rows["sender"] != SERVER)
        if network.strategy in PEER_STRATEGIES:
            assert between_peers.all()
        from_server = rows["delivered"] & (rows["sender"] == SERVER)
        to_server = rows["receiver"] == SERVER
        for unit, size in (("models", np.ones(len(lost), np.int64)), ("bytes", rows["bytes"])):
            received = tables["metrics"][f"{unit}_received"].sum() - size[from_server].sum()
            sent = tables["metrics"][f"{unit}_sent"].sum() - size[to_server].sum()
            assert received == sent - size[lost & between_peers].sum()
        if network.settings.network.loss_probability == 0:
            assert not lost.any()


Kinds = dict[str, int]
"""How many models of each kind one peer asks for, or the server exchanges, in one round."""


@dataclass(frozen=True)
class Turn:
    """One peer in one round of a network."""

    network: Network
    now: Round
    peer: int
    neighbours: np.ndarray | None
    """Whom it held to be of its kind when the round began."""

    def option(self, name: str) -> Any:
        return self.network.options[name]

    @property
    def num_others(self) -> int:
        return self.network.num_peers - 1

    @property
    def num_members(self) -> int:
        """How many others are of its true cluster."""
        clusters = self.now.truth.clusters
        return int((clusters == clusters[self.peer]).sum()) - 1


def _scored_and_fetched(turn: Turn, num_samplings: int) -> Kinds:
    """My model is sent out to be measured on data; to compare weights, models are fetched."""
    asked = num_samplings * turn.option("samples")
    if turn.option("metric") in ("accuracy", "inverse-loss"):
        return {"probe": asked, "fetch": turn.option("fetches")}
    return {"fetch": asked}  # and the selected are among them


def _delusional(turn: Turn) -> Kinds:
    clusters, cluster = turn.now.truth.clusters, turn.option("cluster")
    members = np.flatnonzero(clusters == cluster)[: turn.option("delusional")]
    deluded = turn.peer in members and turn.now.number >= turn.option("from_round")
    among = int((clusters != cluster).sum()) if deluded else turn.num_members
    return {"fetch": min(turn.option("fetches"), among)}


def _dac(turn: Turn) -> Kinds:
    by_them = turn.option("measured_by") == "them"
    on_data = turn.option("metric") in ("accuracy", "inverse-loss")
    fetches = turn.option("fetches")
    return {"fetch": fetches, "probe": fetches if by_them and on_data else 0}


def _pens(turn: Turn) -> Kinds:
    if turn.now.number <= turn.option("exploration_rounds"):
        return _scored_and_fetched(turn, turn.option("samplings"))
    return {"fetch": min(turn.option("later_fetches"), len(turn.neighbours) or turn.num_others)}


BY_PEER: dict[str, Callable[[Turn], Kinds]] = {
    "local": lambda turn: {},
    "random": lambda turn: {"fetch": turn.option("fetches")},
    "oracle": lambda turn: {"fetch": min(turn.option("fetches"), turn.num_members)},
    "delusional-oracle": _delusional,
    "gossip": lambda turn: {"push": min(1, turn.num_others)},
    "dac": _dac,
    "kin": lambda turn: {"fetch": turn.option("fetches")},
    "hast": lambda turn: {"fetch": 2 * turn.option("fetches")},
    "greedy": lambda turn: _scored_and_fetched(turn, 1),
    "random-weighted": lambda turn: dict.fromkeys(("probe", "fetch"), turn.option("fetches")),
    "pens": _pens,
}


def _asked(network: Network) -> Iterator[tuple[Turn, Kinds]]:
    """Run a network; yield how many models of each kind every peer asked for in each round."""
    watch = Watch(network)
    before = [strategy.neighbours() for strategy in watch.strategies]
    for now in watch.rounds():
        rows = now.tables()["exchanges"]
        # A pushed model and a probe are the sender's doing, a fetch is the receiver's.
        asker = np.where(rows["kind"] == "fetch", rows["receiver"], rows["sender"])
        for peer in range(network.num_peers):
            kinds = Counter(rows["kind"][asker == peer].tolist())
            yield Turn(network, now, peer, before[peer]), kinds
        before = [strategy.neighbours() for strategy in watch.strategies]


@pytest.mark.parametrize("name", BY_PEER)
@few(5)
@given(st.data())
def test_peers_ask_for_as_many_models_as_the_algorithm_says(name, data):
    network = data.draw(networks([name], failures=False, patience=None))
    for turn, kinds in _asked(network):
        assert kinds == Counter(BY_PEER[name](turn) if turn.now.number else {})


@few(10)
@given(networks(["panm"], failures=False, patience=None))
def test_panm_asks_for_neighbours_and_strangers(network):
    """l strangers and all neighbours at first; then k of the bag, scored ones not once more."""
    for turn, kinds in _asked(network):
        if turn.now.number == 0:
            assert not kinds
            continue
        fetches, num_neighbours = turn.option("fetches"), len(turn.neighbours)
        num_strangers = min(turn.option("candidates"), turn.num_others - num_neighbours)
        later = turn.now.number - turn.option("confident_rounds")
        if later <= 0 or num_neighbours == 0:
            assert kinds == Counter(fetch=num_neighbours + num_strangers)
        elif later % turn.option("em_every"):
            assert kinds == Counter(fetch=min(fetches, num_neighbours))
        else:
            scored = min(fetches, num_neighbours) + num_strangers
            assert scored <= kinds["fetch"] <= scored + fetches


# Total downloads and uploads of a round, by the number m of sampled clients.
BY_SERVER: dict[str, Callable[[Network, int], Kinds]] = {
    "fedavg": lambda network, m: {"download": m, "upload": m},
    "ifca": lambda network, m: {"download": m * network.options["models"], "upload": m},
    "central": lambda network, m: {},
}


@pytest.mark.parametrize("name", BY_SERVER)
@few(5)
@given(st.data())
def test_servers_exchange_as_many_models_as_the_algorithm_says(name, data):
    network = data.draw(networks([name], failures=False, patience=None))
    for now in Watch(network).rounds():
        counts = Counter(now.tables()["exchanges"]["kind"].tolist())
        sampled = network.options.get("fetches", 0) if now.number else 0
        assert counts == Counter(BY_SERVER[name](network, sampled))


def test_every_strategy_has_a_formula():
    assert {*BY_PEER, *BY_SERVER, "panm"} == set(STRATEGIES)
