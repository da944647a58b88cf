"""Every similarity metric and merge rule, in every strategy that offers them, on real models."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from coterie.errors import ConfigError
from coterie.learning.trainer import EvaluateJob, ModelReference
from coterie.runtime.round import Round
from coterie.simulation.simulation import Simulation
from coterie.strategies import STRATEGIES, make_strategy
from coterie.strategies.parts.similarity import Similarity

METRICS = get_args(Similarity)
ON_DATA = ("inverse-loss", "accuracy")
NUM_PEERS = 6
OTHERS = NUM_PEERS - 1
LOOKING_AT_ALL = {
    "dac": {"fetches": OTHERS},
    "hast": {"fetches": OTHERS},
    "panm": {"fetches": 2, "candidates": OTHERS},
    "greedy": {"fetches": 2, "samples": OTHERS},
    "pens": {"fetches": 2, "samples": OTHERS, "samplings": 1},
}
"""Options with which each peer compares itself with all the others in its first round."""


def offering(option: str) -> set[str]:
    return {name for name, kind in STRATEGIES.items() if option in kind().options()}


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def similarities(simulation: Simulation, metric: str, start: np.ndarray) -> np.ndarray:
    """Return how similar each judge (row) must find each model (column) after round 0.

    So far the last local training, from the start on, is all there was.
    """
    state = simulation.state
    models = state.published.astype(np.float64)
    changes = models - start

    def one(judge: int, model: int) -> float:
        if judge == model:
            return float("nan")
        if metric in ON_DATA:
            job = EvaluateJob(ModelReference("published", model), state.samples[judge].train)
            (result,) = state.trainer.evaluate([job])
            return result.score if metric == "accuracy" else 1 / result.loss
        if metric == "inverse-distance":
            return 1 / float(np.linalg.norm(models[judge] - models[model]))
        vectors = models if metric == "cosine-weights" else changes
        return cosine(vectors[judge], vectors[model])

    return np.array([[one(j, m) for m in range(NUM_PEERS)] for j in range(NUM_PEERS)])


def merged_weights(now: Round, peer: int) -> dict[int, float]:
    """Return the weights with which a peer merged others' models, as recorded, the last ones."""
    columns = now.exchanges.columns()
    mine = (columns["receiver"] == peer) & ~np.isnan(columns["weight"])
    return dict(zip(columns["sender"][mine].tolist(), columns["weight"][mine], strict=True))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", sorted(LOOKING_AT_ALL))
def test_every_metric_in_every_strategy(make_simulation, name, metric):
    """What a strategy takes for similar is what the metric says, for real models on real data."""

    def make():
        return make_strategy(name, {**LOOKING_AT_ALL[name], "metric": metric})

    with make_simulation(make, [30] * NUM_PEERS, initialisation="independent") as simulation:
        start = simulation.state.current.astype(np.float64)
        simulation.advance()
        expected = similarities(simulation, metric, start)
        now = simulation.advance()
        strategies = simulation._runtime.strategies
    if name in ("greedy", "pens") and metric in ON_DATA:
        expected = expected.T  # my model on their data
    for peer, strategy in enumerate(strategies):
        others = np.delete(np.arange(NUM_PEERS), peer)
        if name in ("dac", "hast", "panm"):
            measured = strategy.table.similarities(others)
            np.testing.assert_allclose(measured, expected[peer, others], rtol=1e-5)
        if name in ("greedy", "pens", "panm"):
            chosen = list(merged_weights(now, peer))
            assert len(chosen) == 2
            left = np.setdiff1d(others, chosen)
            assert expected[peer, chosen].min() >= expected[peer, left].max() - 1e-6


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["dac", "hast", "panm"])
def test_fedsim_with_every_metric(make_simulation, name, metric):
    """My own weight is the largest of all, and weights are in the order of the similarities.

    HAST draws from what the first of its steps measured, DAC from what the round before did.
    """
    fedsim = {"metric": metric, "merge": "fedsim", "tau": 2.0}
    with make_simulation(
        lambda: make_strategy(name, {**LOOKING_AT_ALL[name], **fedsim}),
        [30] * NUM_PEERS,
        initialisation="independent",
    ) as simulation:
        simulation.advance()
        simulation.advance()
        everyone = np.arange(NUM_PEERS)
        before = [each.table.similarities(everyone) for each in simulation._runtime.strategies]
        now = simulation.advance()
        strategies = simulation._runtime.strategies
    for peer, strategy in enumerate(strategies):
        weights = merged_weights(now, peer)
        assert max(weights.values()) == pytest.approx(1 - sum(weights.values()))
        table = before[peer] if name == "dac" else strategy.table.similarities(everyone)
        best = max(weights, key=lambda other: table[other])
        expected = {k: weights[best] * np.exp(2 * (table[k] - table[best])) for k in weights}
        assert weights == pytest.approx(expected, rel=1e-4)


def test_the_strategies_with_a_metric_are_all_tried():
    assert offering("metric") == set(LOOKING_AT_ALL)


def test_fedsim_is_offered_where_there_are_probabilities_and_nowhere_else():
    assert offering("merge") == {"dac", "hast", "panm"}
    with pytest.raises(ConfigError, match="Strategy 'greedy' has no option 'merge'"):
        make_strategy("greedy", {"merge": "fedsim"})
