"""Whom peers choose and what they merge, in random networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import ASKED, PEER_STRATEGIES, Merged, Network, Watch, few, networks

from coterie.strategies import STRATEGIES
from coterie.strategies.requests import AskScore, Fetch, Report, Send


@pytest.mark.parametrize("name", PEER_STRATEGIES)
@few(7)
@given(st.data())
def test_peers_choose_others_and_merge_averages(name, data):
    network = data.draw(networks([name]))
    watch = Watch(network)
    for now in watch.rounds():
        _check_log_of_weights(network, now, watch)
    _check_choices(network, watch)
    for merge in watch.merges:
        _check_weights(network, merge)
        _check_in_hull(watch, merge)


def _check_choices(network: Network, watch: Watch) -> None:
    """Nobody chooses itself, nobody is chosen twice, or more often than the options say."""
    # Gossip sends to one peer and has no option for it.
    most = sum(network.options.get(key, 0) for key in ASKED) or 1
    for each in watch.asked:
        if isinstance(each.request, Fetch | AskScore | Send | Report):
            chosen = each.request.peers
            assert each.peer not in chosen
            assert len(set(chosen)) == len(chosen) <= most
            assert set(chosen) <= set(range(network.num_peers))


def _check_weights(network: Network, merge: Merged) -> None:
    """Weights ≥ 0 that sum to 1, with as much for my own model as the paper says."""
    weights = dict(merge.request.weights)
    assert all(weight >= 0 for weight in weights.values())
    assert math.isclose(sum(weights.values()), 1.0, abs_tol=1e-9)
    if network.strategy == "kin" or network.options.get("adopt"):
        return  # by verdicts, and of mine perhaps nothing: tests/strategies/test_kin.py
    mine = weights.pop(merge.peer)
    if network.strategy == "gossip":
        assert mine == 0.5
    elif network.options.get("merge") == "fedsim" and not _has_no_chances(network, merge):
        assert mine == pytest.approx(max(weights.values(), default=1.0))
    elif network.strategy != "random-weighted":
        sizes = [_num_samples(network, peer) for peer in (merge.peer, *weights)]
        assert mine == pytest.approx(sizes[0] / sum(sizes))


def _has_no_chances(network: Network, merge: Merged) -> bool:
    """Whether this is HAST's first step, which merges all layers of peers drawn from nowhere."""
    return network.strategy == "hast" and merge.request.last_layers is None


def _num_samples(network: Network, peer: int) -> int:
    return network.sizes[0 if network.drift_every is not None else peer]


def _check_in_hull(watch: Watch, merge: Merged) -> None:
    """Merged layers stay between those of the merged models in every coordinate; others stay."""
    state = watch.simulation.state
    touched = np.zeros(state.layout.size, dtype=bool)
    for part in state.layout.last_layers(state.depth(merge.request.last_layers)):
        touched[part] = True
    np.testing.assert_array_equal(merge.after[~touched], merge.before[~touched])
    models = np.array([merge.before, *merge.others.values()])[:, touched]
    # Weights and sums are rounded to float32.
    slack = 1e-6 * len(models) * (1 + np.abs(models).max(initial=0))
    assert (merge.after[touched] >= models.min(axis=0) - slack).all()
    assert (merge.after[touched] <= models.max(axis=0) + slack).all()


def _check_log_of_weights(network: Network, now, watch: Watch) -> None:
    """The log of exchanges knows with what weight each received model was last merged."""
    rows = now.tables()["exchanges"]
    pairs = zip(rows["receiver"].tolist(), rows["sender"].tolist(), strict=True)
    logged = {
        pair: weight
        for pair, weight in zip(pairs, rows["weight"].tolist(), strict=True)
        if not math.isnan(weight)
    }
    merged = {
        (merge.peer, other): weight
        for merge in watch.merges
        if merge.round == now.number
        for other, weight in merge.request.weights.items()
        if other != merge.peer
    }
    # In turn, what was pushed in an earlier round may be merged in this one.
    waiting = network.strategy == "gossip" and network.settings.schedule == "sequential"
    assert logged.items() <= merged.items() if waiting else logged == merged


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@few(4)
@given(st.data())
def test_who_is_offline_neither_acts_nor_changes(name, data):
    """Except that a peer may run out of patience meanwhile and go back to its best model."""
    watch = Watch(data.draw(networks([name], fewest_peers=2, drifts=False)))
    simulation = watch.simulation
    before = [part.copy() for part in _models(watch)]
    for now in watch.rounds():
        acting = {each.peer for each in watch.asked if each.round == now.number}
        assert acting <= set(now.active_peers.tolist())
        stays = ~now.online & ~(simulation.state.progress.stopped & ~now.stopped)
        for old, new in zip(before, _models(watch), strict=True):
            np.testing.assert_array_equal(new[stays], old[stays])
        before = [part.copy() for part in _models(watch)]
        rows = now.tables()["exchanges"]
        taking_part = np.concatenate([rows["receiver"], rows["sender"]])
        assert now.online[taking_part[taking_part >= 0]].all()


def _models(watch: Watch) -> tuple[np.ndarray, ...]:
    state = watch.simulation.state
    return state.current, state.published, state.best
