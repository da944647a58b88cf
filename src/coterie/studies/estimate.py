"""How long a study will take: from the work of its runs, and from those that have finished."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import torch
from scipy.optimize import nnls
from torch import nn

from coterie.experiments.config import RunConfig
from coterie.experiments.run_folder import RunFolder
from coterie.models.architectures import architecture
from coterie.runtime.run_tables import read_table

ASSUMED = ((1e13, 0.0, 300.0), (0.0, 1e4, 4.0))
"""Runs that are assumed beside the finished ones: multiplications, rounds of peers, CPU seconds.

Without them, a study that begins with a tiny model would expect large models to be as slow.
"""
SCALES = np.array([1e13, 1e4])
"""Keep the two columns of the fit of one size."""
PASSES_OF_TRAINING = 3
"""A step of training does about three times the work of a forward pass."""


def work(config: RunConfig) -> float:
    """Return about how many multiplications a run does if no peer stops early."""
    peers, options = config.peers, config.strategy_options()
    trained = PASSES_OF_TRAINING * config.training.epochs * peers.train_size
    # Fetched models are measured, most often on training data; the own ones are validated twice.
    measured = options.get("fetches", 0) * options.get("samplings", 1) * peers.train_size
    samples = trained + measured + 2 * peers.validation_size
    return float(_of_one_sample(config.model.name) * samples * peers.count * (config.rounds + 1))


@cache
def _of_one_sample(name: str) -> int:
    """Return the multiplications of a forward pass of one sample."""
    known = architecture(name)
    module, total = known.build().eval(), 0

    def count(layer: nn.Module, inputs: tuple[torch.Tensor], outputs: torch.Tensor) -> None:
        nonlocal total
        if isinstance(layer, nn.Conv2d | nn.Linear):
            positions = outputs[0].numel() // layer.weight.shape[0]
            total += layer.weight.numel() * positions

    for layer in module.modules():
        layer.register_forward_hook(count)
    with torch.no_grad():
        module(torch.zeros(1, *known.input_shape))
    return total


def rounds_of_peers(config: RunConfig) -> float:
    """Return how many rounds all peers of a run do together; each costs time beside its work."""
    return float((config.rounds + 1) * config.peers.count)


def seconds_left(
    waiting: Iterable[RunConfig], finished: Iterable[RunFolder], threads: int
) -> float:
    """Return about how many seconds runs will take, measured by those that have finished."""
    rows = [*ASSUMED]
    for run in finished:
        seconds = float(np.sum(read_table(run.folder, "timings")["cpu_seconds"].to_numpy()))
        rows.append((work(run.config), rounds_of_peers(run.config), seconds))
    costs = np.array(rows)
    speeds, _ = nnls(costs[:, :2] / SCALES, costs[:, 2])
    return float(
        sum(np.dot((work(run), rounds_of_peers(run)) / SCALES, speeds) for run in waiting) / threads
    )
