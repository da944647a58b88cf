"""Small real runs to be watched and drawn."""

from __future__ import annotations

from pathlib import Path

from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset

SMALL = {
    "peers.count": 8,
    "rounds": 6,
    "checkpoint_every": 2,
    "test_every": 3,
    "peers.validation_size": 10,
}


def create(folder: Path, labels: list[str], seeds: list[int], **changes: object) -> Experiment:
    """Lay out an experiment of small runs, without running it."""
    configs = find_preset("digits").runs(labels, seeds, {**SMALL, **changes})
    return Experiment.create(folder, configs)
