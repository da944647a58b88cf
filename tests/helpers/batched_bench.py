"""Peers on a small bench, trained at once or one after another, and modules of many kinds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from small_runs import CLASSES, FEATURES, small_module
from torch import nn
from torch_bench import a_pool, deep, normalised

from coterie.data.pools import Pool, Samples
from coterie.learning.batched_trainer import BatchedTrainer
from coterie.learning.device import CPU
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    ModelReference,
    Trainer,
    TrainJob,
    Workspace,
)
from coterie.models.vector import initial_vector
from coterie.tasks import Task

PEERS, SIZE = 5, 10


class Group:
    """Peers with models and data of their own, and one trainer for all of them."""

    def __init__(
        self,
        build: Callable[[], nn.Module] = deep,
        *,
        batched: bool = True,
        device: torch.device = CPU,
        pools: list[Pool] | None = None,
        regression: bool = False,
        **settings: object,
    ) -> None:
        self.pools = pools or [a_pool(PEERS * SIZE, regression=regression)]
        self.models = np.stack([initial_vector(build, number) for number in range(PEERS)])
        self.start = self.models.copy()
        workspace = Workspace(self.pools, {"current": self.models})
        training = TrainingSettings(**{"batch_size": 4, "learning_rate": 0.02, **settings})
        self.trainer: Trainer = (
            BatchedTrainer(
                build, training, workspace, device, Task("mse" if regression else "cross-entropy")
            )
            if batched
            else TorchTrainer(
                build, training, workspace, Task("mse" if regression else "cross-entropy")
            )
        )

    def train(
        self, sizes: list[int] | None = None, *, epochs: int = 2, last_layers: int | None = None
    ) -> list[float]:
        samples = [
            Samples(0, number * SIZE, number * SIZE + size)
            for number, size in enumerate(sizes or [SIZE] * PEERS)
        ]
        return self.trainer.train(
            [
                TrainJob(ModelReference("current", n), mine, epochs, 100 + n, last_layers)
                for n, mine in enumerate(samples)
            ]
        )

    def evaluate(self, *samples: Samples) -> list[Evaluation]:
        """Evaluate every model on all these samples."""
        return self.trainer.evaluate(
            [EvaluateJob(ModelReference("current", n), s) for n in range(PEERS) for s in samples]
        )


def pair(build: Callable[[], nn.Module] = deep, **settings: object) -> tuple[Group, Group]:
    """Return the same peers twice: trained at once, and one after another."""
    return Group(build, **settings), Group(build, batched=False, **settings)


def assert_close(ours: Group, theirs: Group, tolerance: float = 2e-5) -> None:
    assert np.abs(theirs.models - theirs.start).max() > 100 * tolerance
    np.testing.assert_allclose(ours.models, theirs.models, atol=tolerance)


def image_network() -> nn.Module:
    """Return a small network of what image networks are made of."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d((1, 2), 1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


class Tied(nn.Module):
    """Uses one matrix twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.second = nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(inputs)))))


class Remembering(nn.Module):
    """Replaces a float buffer instead of writing into it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("mean", torch.zeros(FEATURES))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * inputs.mean(dim=0)
        return self.linear(inputs - self.mean)


def half_frozen() -> nn.Module:
    """Return a network with a frozen part that is the same at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        backbone = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Tanh())
        backbone[1].running_mean.normal_()
    adapted = nn.Linear(8, 8)
    adapted.bias.requires_grad_(False).zero_()
    head = nn.Linear(8, CLASSES)
    return nn.Sequential(backbone.requires_grad_(False), adapted, nn.Dropout(0), head)


MODULES = [small_module, deep, normalised, image_network, Tied, Remembering, half_frozen]
