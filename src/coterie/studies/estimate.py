"""How long a study will take: from the work of its runs, and from those that have finished."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import torch
from torch import nn

from coterie.experiments.config import RunConfig
from coterie.experiments.run_folder import RunFolder
from coterie.models.architectures import architecture
from coterie.runtime.run_tables import read_table

OPERATIONS_PER_SECOND = 4e9
"""Multiplications of one thread, before anything has been measured."""
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


def seconds_left(
    waiting: Iterable[RunConfig], finished: Iterable[RunFolder], threads: int
) -> float:
    """Return about how many seconds runs will take, measured by those that have finished."""
    done = seconds = 0.0
    for run in finished:
        done += work(run.config)
        seconds += float(np.sum(read_table(run.folder, "timings")["cpu_seconds"].to_numpy()))
    speed = done / seconds if seconds else OPERATIONS_PER_SECOND
    return sum(map(work, waiting)) / speed / threads
