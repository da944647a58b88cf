"""A plain loop in torch, the yardstick: all peers in one process, without any framework."""

from __future__ import annotations

import random

import torch
from torch import nn
from work import BATCH_SIZE, LEARNING_RATE, Meter, build_network, parse_options, read_samples

Samples = tuple[torch.Tensor, torch.Tensor]


def merge(model: nn.Module, fetched: list[torch.Tensor]) -> None:
    """Average a model with a fetched one."""
    with torch.no_grad():
        for mine, other in zip(model.parameters(), fetched, strict=True):
            mine.add_(other).div_(2)


def train(model: nn.Module, samples: Samples) -> None:
    """Train one epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    order = torch.randperm(len(samples[1]))
    for batch in torch.split(order, BATCH_SIZE):
        optimizer.zero_grad()
        outputs = model(samples[0][batch])
        nn.functional.cross_entropy(outputs, samples[1][batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def main() -> None:
    """Run all rounds: each peer merges with another one of the round before, and trains."""
    options = parse_options()
    meter = Meter(options, "torch")
    data = [read_samples(options, peer) for peer in range(options.peers)]
    models = [build_network() for _ in data]
    for _ in range(1 + options.rounds):
        before = [[each.detach().clone() for each in model.parameters()] for model in models]
        for model, samples in zip(models, data, strict=True):
            merge(model, random.choice(before))  # noqa: S311 — not for security
            train(model, samples)
        meter.finish_round()
    meter.report()


if __name__ == "__main__":
    main()
