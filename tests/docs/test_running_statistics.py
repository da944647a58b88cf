"""The table about running statistics shows the kept figures."""

from __future__ import annotations

import json

import pytest
from pages import ROOT

RUNS = json.loads((ROOT / "docs" / "buffers" / "cifar-rotation4.json").read_text())["results"]
PAGE = (ROOT / "docs" / "own-model-and-data.md").read_text()


@pytest.mark.parametrize("strategy", sorted({run["strategy"] for run in RUNS}))
def test_the_table_has_the_means_and_differences_of_all_seeds(strategy):
    found = {
        buffers: [
            100 * run["test_accuracy"]
            for run in RUNS
            if (run["strategy"], run["buffers"]) == (strategy, buffers)
        ]
        for buffers in ("exchanged", "local")
    }
    means = [sum(each) / len(each) for each in found.values()]
    pairs = zip(found["local"], found["exchanged"], strict=True)
    apart = ", ".join(f"{local - exchanged:+.1f}" for local, exchanged in pairs)
    row = f"| {strategy} | {means[0]:.1f}% | {means[1]:.1f}% | {apart} |".replace("-", "−")
    assert row in PAGE
