"""HAST and fine-tuning, rule by rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from plans import drive
from small_runs import layered_module, small_module

from coterie.errors import ConfigError
from coterie.learning.settings import TrainingSettings
from coterie.strategies.dac import DAC
from coterie.strategies.hast import HAST
from coterie.strategies.random import Random
from coterie.strategies.requests import Fetch, Merge, Offer, Plan, Score, Train
from coterie.strategies.strategy import Me, Strategy

NUM_PEERS = 8


def play(strategy: Strategy, losses: dict[int, float], round_number: int = 1) -> list:
    """Run one round in which all peers answer; return the requests."""
    rng = np.random.default_rng(round_number)

    def answer(request: object) -> object:
        match request:
            case Fetch(peers):
                return [Offer(peer, 10, {}) for peer in peers]
            case Score(offers):
                return {offer.peer: losses[offer.peer] for offer in offers}
        return None

    return drive(strategy.round(Me(0, round_number, np.arange(NUM_PEERS), 10, rng)), answer)


LOSSES = {peer: float(peer) for peer in range(1, NUM_PEERS)}


def test_a_round_in_order():
    """All layers with random peers, the classifier with similar ones, train, fine-tune."""
    asked = play(HAST(fetches=3), LOSSES)
    assert [type(r) for r in asked] == [Fetch, Score, Merge, Fetch, Score, Merge, Train, Train]
    first, second = (request for request in asked if isinstance(request, Merge))
    assert first.last_layers is None
    assert second.last_layers == "classifier"
    assert asked[-2] == Train()
    assert asked[-1] == Train(last_layers="classifier", only_if_better=True)


def test_the_second_step_prefers_similar_peers():
    """With a large τ, the best of those known are taken, and they are measured and stored too."""
    strategy = HAST(fetches=3, tau=1e6)
    strategy.table.record_scores({peer: 1 / loss for peer, loss in LOSSES.items()})
    asked = play(strategy, LOSSES)
    assert set(asked[3].peers) == {1, 2, 3}


def test_measurements_of_both_steps_are_stored():
    strategy = HAST(fetches=3, tau=0)
    asked = play(strategy, LOSSES)
    measured = sorted({*asked[0].peers, *asked[3].peers})
    others = np.arange(1, NUM_PEERS)
    known = others[strategy.table.is_measured(others)]
    assert known.tolist() == measured
    assert len(measured) > 3, "the test needs a second step that fetches from a new peer"


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_depth_is_how_many_layers_the_second_step_merges(depth):
    asked = play(HAST(depth=depth), LOSSES)
    assert asked[5].last_layers == depth
    assert asked[-1].last_layers == depth


def test_fedsim_weighs_the_second_step_by_the_chances_it_drew_from():
    """p_i = softmax(τ·s) after the first step's measurements; the first step has no p_i."""
    strategy = HAST(fetches=3, tau=2.0, merge="fedsim")
    asked = play(strategy, LOSSES)
    first, second = (request for request in asked if isinstance(request, Merge))
    assert first.weights == pytest.approx(dict.fromkeys([0, *asked[0].peers], 1 / 4))
    known = {peer: 1 / LOSSES[peer] for peer in asked[0].peers}
    amounts = {peer: math.exp(2.0 * known.get(peer, 0.0)) for peer in asked[3].peers}
    amounts[0] = max(amounts.values())
    total = sum(amounts.values())
    assert len(set(amounts.values())) > 1, "the test needs peers of different chances"
    assert second.weights == pytest.approx({peer: n / total for peer, n in amounts.items()})
    assert second.last_layers == "classifier"


def test_fine_tuning_can_be_left_out():
    assert play(HAST(finetune=False), LOSSES)[-1] == Train()


@pytest.mark.parametrize("kind", [Random, DAC])
def test_fine_tuning_for_others(kind):
    assert play(kind(finetune=False), LOSSES)[-1] == Train()
    tuned = play(kind(finetune=True, depth=2), LOSSES)
    assert tuned[-2:] == [Train(), Train(last_layers=2, only_if_better=True)]


@dataclass
class Tuning(Strategy):
    """Fine-tunes the last layer and nothing else."""

    only_if_better: bool = True
    name = "tuning"
    summary = "fine-tunes the last layer and nothing else"

    def round(self, me: Me) -> Plan:
        yield Train(epochs=4, last_layers=1, only_if_better=self.only_if_better)


def test_fine_tuning_is_kept_only_if_the_validation_loss_falls(make_simulation):
    """With a wild learning rate it rises for some peers: their models stay as they were."""
    reckless = TrainingSettings(learning_rate=0.05)
    results = {}
    for only_if_better in (True, False):
        with make_simulation(
            lambda keep=only_if_better: Tuning(keep), training=reckless, rounds=6
        ) as simulation:
            simulation.advance()
            before = simulation.state.current.copy()
            simulation.advance()
            now = simulation.advance()
            loss = (now.measures[f"validation_loss_{when}"] for when in ("before", "trained"))
            results[only_if_better] = (*loss, before, simulation.state.current.copy())
    before, after, _, _ = results[True]
    assert (after <= before).all()
    assert (after < before).any()
    careless_before, careless_after, _, _ = results[False]
    assert (careless_after > careless_before).any()


@pytest.mark.parametrize(("module", "is_same"), [(small_module, True), (layered_module, False)])
@pytest.mark.slow
def test_what_is_all_classifier_is_not_trained_twice(make_simulation, module, is_same):
    results = []
    for finetune in (False, True):
        with make_simulation(
            lambda finetune=finetune: Random(fetches=2, finetune=finetune), module=module
        ) as simulation:
            simulation.advance()
            simulation.advance()
            results.append(simulation.state.current.copy())
    assert np.array_equal(*results) is is_same


def test_hast_changes_only_the_classifier_in_its_second_step(make_simulation):
    """Feature extractors after both merges are those after the first."""
    with make_simulation(lambda: HAST(fetches=2, depth=1)) as simulation:
        simulation.advance()
        seen = []
        merge = simulation._runtime._handlers[Merge]

        def look_after(now, requests):
            answer = merge(now, requests)
            seen.append(simulation.state.current.copy())
            return answer

        simulation._runtime._handlers[Merge] = look_after
        simulation.advance()
        head = simulation.state.layout.last_layers(1)[0]
        first, second = seen
        np.testing.assert_array_equal(first[:, : head.start], second[:, : head.start])
        assert (first[:, head] != second[:, head]).any(axis=1).all()


def test_a_depth_the_model_does_not_have_is_refused(make_simulation):
    with make_simulation(lambda: HAST(fetches=2, depth=9)) as simulation:
        simulation.advance()
        with pytest.raises(ConfigError, match="Use a depth from 1 to 2"):
            simulation.advance()
