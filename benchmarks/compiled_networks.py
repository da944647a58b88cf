"""How fast are users' own networks in compiled code, compared with torch and its fused Adam?

usage: python benchmarks/compiled_networks.py [--repeats N] [NETWORK …] [--save]

Training in batches of 8 on one thread: CPU time, both in turn, the best of several repeats. The
data are random.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from keeping import show
from torch import nn

from coterie.benchmarking.machine import describe_machine
from coterie.benchmarking.timing import best_rates
from coterie.data.pools import Pool, Samples
from coterie.learning.module_calls import single_threaded
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import ModelReference, TrainJob, Workspace
from coterie.learning.trainer_choice import make_native_trainer
from coterie.models.resnet import BasicBlock, ResNet18
from coterie.models.vector import vector_of
from coterie.randomness import generator
from coterie.tasks import Task

BATCH = 8
CLASSES = 10
TOKENS = 5000


@dataclass(frozen=True)
class Network:
    """A network, the shape of its samples, and how many of them one measurement trains."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    samples: int
    reads_tokens: bool = False


class Bag(nn.Module):
    """Classifies texts by the mean of their words' embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TOKENS, 64)
        self.hidden, self.head = nn.Linear(64, 64), nn.Linear(64, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map (N, words) to (N, classes) scores."""
        return cast(torch.Tensor, self.head(F.relu(self.hidden(self.table(tokens).mean(dim=1)))))


def resnet_8() -> nn.Module:
    """Return a residual network of eight layers for small images."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        BasicBlock(16, 16, 1),
        BasicBlock(16, 32, 2),
        BasicBlock(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def perceptron() -> nn.Module:
    """Return two hidden layers with GELU and layer normalisation."""
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.LayerNorm(256),
        nn.GELU(),
        nn.Linear(256, 256),
        nn.LayerNorm(256),
        nn.GELU(),
        nn.Linear(256, CLASSES),
    )


NETWORKS = {
    "mlp-gelu-layernorm": Network(perceptron, (64,), 400),
    "embedding-classifier": Network(Bag, (32,), 400, reads_tokens=True),
    "resnet-8": Network(resnet_8, (3, 32, 32), 64),
    "resnet-18": Network(lambda: ResNet18(CLASSES), (3, 32, 32), 32),
}


def main() -> None:
    """Measure the chosen networks, print the figures, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    chosen = options.networks or list(NETWORKS)
    with single_threaded():
        measured = {name: measure(NETWORKS[name], options.repeats) for name in chosen}
    figures = describe_machine() | {"batch_size": BATCH, "repeats": options.repeats, **measured}
    show(figures, "compiled-networks", save=options.save)


def measure(network: Network, repeats: int) -> dict[str, Any]:
    """Return the rates of both trainers."""
    pool = random_pool(network)
    module = network.build()
    start = vector_of(module)
    workspace = Workspace([pool], {"models": start[np.newaxis].copy()})
    settings = TrainingSettings(batch_size=BATCH)
    with closing(make_native_trainer(module, settings, workspace, Task(), threads=1)) as trainer:
        mine = ModelReference("models", 0)
        job = TrainJob(mine, Samples(0, 0, network.samples), epochs=1, bits=0)

        def compiled() -> int:
            workspace.model(mine)[:] = start
            trainer.train([job])
            return network.samples

        candidates = {"compiled": compiled, "torch": torch_training(network, pool)}
        rates = best_rates(candidates, repeats, lambda: None)
    return {
        "parameters": len(start),
        "train_native_samples_per_second": round(rates["compiled"]),
        "train_torch_fused_samples_per_second": round(rates["torch"]),
        "train_native_times_torch_fused": round(rates["compiled"] / rates["torch"], 2),
    }


def torch_training(network: Network, pool: Pool) -> Callable[[], int]:
    """Return a usual training loop with torch."""
    module = network.build().train()
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    inputs, targets = torch.from_numpy(pool.only_inputs), torch.from_numpy(pool.targets)

    def train() -> int:
        order = torch.randperm(len(inputs))
        for start in range(0, len(inputs), BATCH):
            batch = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = F.cross_entropy(module(inputs[batch]), targets[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return len(inputs)

    return train


def random_pool(network: Network) -> Pool:
    """Return random samples with random classes."""
    rng = generator(0, "benchmark", str(network.shape))
    sizes = (network.samples, *network.shape)
    targets = rng.integers(0, CLASSES, network.samples)
    if network.reads_tokens:
        return Pool(rng.zipf(1.2, sizes) % TOKENS, targets)  # as often as words of texts
    return Pool(rng.standard_normal(sizes, dtype=np.float32), targets)


if __name__ == "__main__":
    main()
