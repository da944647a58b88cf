"""Coterie as a library: what `simulate` gives back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from docstrings import check, examples
from small_runs import CLASSES, FEATURES, classify, small_module
from torch import nn

import coterie
import coterie.api.callbacks
import coterie.api.result
import coterie.api.run_simulation
import coterie.data.peer_arrays


def peers(count: int = 4) -> list[coterie.PeerData]:
    rng = np.random.default_rng(0)
    return [
        coterie.PeerData(
            classify(rng, n % 2, 16), classify(rng, n % 2, 8), classify(rng, n % 2, 30)
        )
        for n in range(count)
    ]


SHORT = coterie.SimulationSettings(rounds=2)


def run(build=small_module, strategy="local") -> coterie.Result:
    return coterie.simulate(build, peers(), strategy, SHORT, threads=1)


PUBLIC = (
    coterie.api.callbacks,
    coterie.api.result,
    coterie.api.run_simulation,
    coterie.data.peer_arrays,
)


EXAMPLES = [each for each in examples(*PUBLIC) if "load_run" not in each.name]
"""Those of load_run need a run: tests/experiments/test_run_folder.py."""


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_examples_of_docstrings_run(test):
    check(test)


def test_a_peers_best_model_can_be_used():
    """Loaded into a new module, it reaches just the accuracy that was reported."""
    result = run()
    for peer, data in enumerate(peers()):
        module = result.load_into(small_module(), peer)
        points, labels = (torch.as_tensor(part) for part in data.test)
        with torch.no_grad():
            accuracy = (module(points).argmax(dim=1) == labels).double().mean()
        assert float(accuracy) == result.test_score[peer]


def test_results_have_one_entry_per_peer():
    result = run(strategy=lambda: coterie.make_strategy("random", {"fetches": 2}))
    assert result.models.shape == (4, result.layout.size)
    assert result.test_loss.shape == result.test_score.shape == (4,)
    assert result.summary.label == "random"
    assert result.summary.mean == result.test_score.mean()
    assert result.exchanges.num_rows == 4 * 2 * 2


def test_without_a_strategy_it_is_kin():
    result = coterie.simulate(small_module, peers(6), settings=SHORT, threads=1)
    assert result.summary.label == "kin"


class Counting(nn.Module):
    """Replaces a float buffer in each training step, instead of updating it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.steps = self.steps + 1
        return self.linear(points)


def test_buffers_that_a_module_replaces_belong_to_the_peer():
    """16 samples in batches of 8, 3 epochs: 6 steps a training, counted for each peer alone."""
    result = run(Counting)
    place = next(entry for entry in result.layout.entries if entry.name == "steps")
    best_rounds = result.models[:, place.start] / 6
    assert set(best_rounds.tolist()) <= {1.0, 2.0, 3.0}
