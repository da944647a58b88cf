"""Ordinary slips in calls of the library: each is answered in the words of the caller."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.strategies.dac import DAC
from coterie.tasks.score import ACCURACY

ROUND = {"rounds": 1}


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def part(count: int, targets=lambda labels: labels):
    rng = np.random.default_rng(count)
    inputs = rng.normal(size=(count, 4)).astype(np.float32)
    return inputs, targets((inputs[:, 0] > 0).astype(int))


def peers(targets=lambda labels: labels) -> list[coterie.PeerData]:
    return [coterie.PeerData(*(part(n, targets) for n in (12, 8, 10)))] * 4


class Wide(nn.Linear):
    def __init__(self, width: int) -> None:
        super().__init__(width, 2)


MODULE, STRATEGY, PEERS = build(), DAC(), peers()
RESULT = coterie.simulate(build, PEERS, "local", ROUND, threads=1)


def simulate(make=build, data=PEERS, strategy="local", settings=ROUND, **others):
    return coterie.simulate(make, data, strategy, settings, **{"threads": 1, **others})


def of_peer_0(**parts) -> list[coterie.PeerData]:
    kept = {"train": part(12), "validation": part(8), "test": part(10)}
    return [coterie.PeerData(**{**kept, **parts})] * 4


SLIPS = {
    "a module": (lambda: simulate(build()), r"build is a module \(Sequential\)"),
    "a class with arguments": (lambda: simulate(Wide), "Wide needs some .*'width'"),
    "one module for all": (lambda: simulate(lambda: MODULE), "the same module twice"),
    "no module": (lambda: simulate(lambda: None), r"build\(\) returned None"),
    "the name of a model": (lambda: simulate("cnn"), "build is 'cnn'"),
    "too narrow a module": (lambda: simulate(lambda: nn.Linear(3, 2)), r"sample of shape \(4,\)"),
    "too few outputs": (lambda: simulate(lambda: nn.Linear(4, 1)), "For regression give float"),
    "arguments in another order": (lambda: simulate(PEERS, build), "peers is a function"),
    "a strategy with a typo": (lambda: simulate(strategy="dak"), "Did you mean 'dac'"),
    "an option with a typo": (
        lambda: simulate(strategy={"name": "dac", "tua": 1}),
        "no option 'tua'. Did you mean 'tau'",
    ),
    "an option out of range": (
        lambda: simulate(strategy=DAC(tau=-1)),
        "strategy.tau = -1 cannot be used: it should be greater than or equal to 0",
    ),
    "a number as a strategy": (lambda: simulate(strategy=7), "strategy is 7"),
    "one strategy for all": (
        lambda: simulate(strategy=lambda: STRATEGY),
        "the same strategy twice",
    ),
    "no strategy": (lambda: simulate(strategy=lambda: "dac"), r"strategy\(\) returned 'dac'"),
    "a setting with a typo": (lambda: simulate(settings={"round": 3}), "Did you mean 'rounds'"),
    "a setting of a wrong type": (
        lambda: coterie.SimulationSettings(rounds="many"),
        "rounds = 'many' cannot be used: it should be a valid whole number",
    ),
    "a setting in a group": (
        lambda: coterie.SimulationSettings(training={"learning_rate": 0}),
        "training.learning_rate = 0 cannot be used: it should be greater than 0",
    ),
    "settings without names": (
        lambda: coterie.SimulationSettings(50),
        "names of settings, such as rounds=50",
    ),
    "a number as settings": (lambda: simulate(settings=3), "settings is 3"),
    "data of one peer": (lambda: simulate(data=PEERS[0]), "Give a list with one PeerData"),
    "peers by name": (lambda: simulate(data={"a": PEERS[0]}), "peers is a dict"),
    "two parts of three": (lambda: simulate(data=[(part(9), part(9))] * 4), "Peer 0 is a tuple"),
    "no training data": (
        lambda: simulate(data=of_peer_0(train=None)),
        "Peer 0, train data is missing",
    ),
    "too little to hold out": (
        lambda: simulate(data=[coterie.PeerData(train=part(1), test=part(9))] * 4),
        "Peer 0, train data: 1 sample is too few to hold one out",
    ),
    "inputs without targets": (
        lambda: simulate(data=of_peer_0(train=part(9)[0])),
        r"one array of shape \(9, 4\). Give a pair",
    ),
    "a torch Dataset": (
        lambda: simulate(data=of_peer_0(train=torch.utils.data.TensorDataset(torch.ones(9, 4)))),
        "each item must be a pair",
    ),
    "one-hot labels": (lambda: simulate(data=peers(lambda y: np.eye(2)[y])), "targets.argmax"),
    "classes as floats": (lambda: simulate(data=peers(lambda y: y * 1.0)), r"labels.astype\(int\)"),
    "classes as text": (lambda: simulate(data=peers(lambda y: y.astype(str))), "To number classes"),
    "negative labels": (lambda: simulate(data=peers(lambda y: y - 1)), "label -1 is negative"),
    "no threads": (lambda: simulate(threads=0), "threads is 0"),
    "threads as text": (lambda: simulate(threads="2"), "threads is '2'"),
    "clusters by name": (lambda: simulate(clusters=["a", "b", "a", "b"]), "4 whole numbers from 0"),
    "too few clusters": (lambda: simulate(clusters=[0, 1]), "4 whole numbers from 0"),
    "too many fetches": (
        lambda: simulate(strategy={"name": "random", "fetches": 4}),
        "strategy.fetches is 4, but",
    ),
    "a peer that is not": (lambda: RESULT.load_into(build(), 4), "There is no peer 4"),
    "another module": (lambda: RESULT.load_into(nn.Linear(3, 3), 0), "this model needs float32"),
    "a function to load into": (lambda: RESULT.load_into(build, 0), "needs a torch module"),
    "no run folder": (lambda: coterie.load_run("/nowhere/at/all"), "no folder /nowhere/at/all"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_in_the_callers_words(slip):
    call, answer = SLIPS[slip]
    with pytest.raises(coterie.CoterieError, match=answer) as caught:
        call()
    message = str(caught.value)
    assert message.endswith((".", ")", "]"))
    assert "pydantic" not in message
    assert "Traceback" not in message


ACCEPTED = {
    "a strategy class": {"strategy": DAC},
    "a strategy": {"strategy": DAC(tau=3.0)},
    "a strategy as a dict": {"strategy": {"name": "dac", "tau": 3}},
    "settings as a dict": {"settings": {"rounds": 1, "training": {"epochs": 2}}},
    "no settings": {"settings": None, "data": PEERS[:2], "strategy": "local"},
    "tuples": {"data": [(p.train, p.validation, p.test) for p in PEERS]},
    "dicts": {
        "data": [{"train": p.train, "validation": p.validation, "test": p.test} for p in PEERS]
    },
    "no validation": {"data": of_peer_0(validation=None)},
    "training data only": {"data": [coterie.PeerData(train=part(12))] * 4},
    "pairs": {"data": [p.train for p in PEERS]},
    "a column of targets": {"data": peers(lambda y: y[:, None])},
    "a tensor with a gradient": {
        "data": of_peer_0(train=(torch.ones(9, 4, requires_grad=True), [0] * 9))
    },
    "a torch Dataset": {
        "data": of_peer_0(train=torch.utils.data.TensorDataset(*map(torch.as_tensor, part(9))))
    },
    "a generator": {"data": (peer for peer in PEERS)},
    "lists of numbers": {"data": of_peer_0(train=tuple(each.tolist() for each in part(12)))},
    "tensors": {"data": of_peer_0(train=tuple(torch.as_tensor(each) for each in part(12)))},
}


@pytest.mark.parametrize("variation", ACCEPTED)
def test_an_ordinary_variation_is_accepted(variation):
    assert np.isfinite(simulate(**ACCEPTED[variation]).test_loss).all()


def test_a_strategy_that_is_given_is_only_a_model_for_those_of_the_peers():
    given = DAC(tau=3.0)
    mine, same = (simulate(strategy=each) for each in (given, lambda: DAC(tau=3.0)))
    np.testing.assert_array_equal(mine.models, same.models)
    assert str(given.save()) == str(DAC().save()), "it remembers nothing of the run"


def test_bool_labels_are_classes():
    as_bool, as_int = simulate(data=peers(lambda y: y.astype(bool))), simulate()
    np.testing.assert_array_equal(as_bool.models, as_int.models)
    assert as_bool.summary.score == ACCURACY


def test_a_final_softmax_is_pointed_out(capsys):
    def with_softmax() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))

    simulate(with_softmax)
    assert "ends in a softmax" in capsys.readouterr().out
    simulate(lambda: nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()))
    assert "softmax" not in capsys.readouterr().out


def test_a_result_is_shown_in_a_few_words():
    shown = repr(RESULT)
    assert shown.startswith("<Result of local: peers 4, rounds 1, mean test accuracy")
    assert f"{RESULT.test_score.mean():.1%}" in shown
    assert len(shown) < 200
