"""Buffers exchanged or local: the accuracy of a small network with batch normalisation.

usage: python benchmarks/local_buffers.py [--data-root DIR] [--seeds N] [--threads N]

CIFAR-10, rotated four ways, 16 peers with 100 training images each, 30 rounds. The figures are
kept in docs/buffers/cifar-rotation4.json, which docs/own-model-and-data.md shows.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from coterie.benchmarking.machine import describe_machine
from coterie.experiments.config import make_scenario
from coterie.experiments.presets import find_preset
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

KEPT = Path(__file__).parent.parent / "docs" / "buffers" / "cifar-rotation4.json"
STRATEGIES = ("random", "dac", "kin", "fedavg")
CHANGES = {
    "peers.count": 16,
    "peers.train_size": 100,
    "peers.validation_size": 50,
    "peers.test_size": 200,
    "rounds": 30,
    "training.epochs": 1,
    "training.batch_size": 20,
    "test_every": 30,
}


def build() -> nn.Module:
    """Return two convolutions with batch normalisation, and a classifier."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(4)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(4)),
        *(nn.Flatten(), nn.Linear(128, 10)),
    )


def measure(
    strategy: str, buffers: str, seed: int, root: str | None, threads: int
) -> dict[str, Any]:
    """Run once; return the mean test accuracy of all peers, and what was sent."""
    changes: dict[str, Any] = {**CHANGES, "training.buffers": buffers}
    if root is not None:
        changes["data.root"] = root
    (config,) = find_preset("dac-cifar-rotation4").runs([strategy], [seed], changes)
    sent = 0
    with Simulation(
        make_scenario(config),
        build,
        lambda: make_strategy(config.strategy["name"], config.strategy_options()),
        config,
        threads=threads,
        tell=lambda _: None,
    ) as simulation:
        while not simulation.finished:
            now = simulation.advance()
            sent = simulation.state.exchanged.layout.num_bytes
        accuracy = float(np.nanmean(now.measures["test_score"]))
    return {
        "strategy": strategy,
        "buffers": buffers,
        "seed": seed,
        "test_accuracy": round(accuracy, 4),
        "bytes_per_model": sent,
    }


def main() -> None:
    """Measure every strategy with both settings, and keep the figures after each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    report = describe_machine() | {"settings": CHANGES, "preset": "dac-cifar-rotation4"}
    report["results"] = []
    KEPT.parent.mkdir(exist_ok=True)
    for seed, strategy, buffers in product(
        range(options.seeds), STRATEGIES, ("exchanged", "local")
    ):
        found = measure(strategy, buffers, seed, options.data_root, options.threads)
        report["results"].append(found)
        print(found, flush=True)
        KEPT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
