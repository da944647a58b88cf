"""A torch trainer on a small bench: modules, data, and loops written by hand to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from small_runs import CLASSES, FEATURES, small_module
from torch import nn

from coterie.data.pools import Pool, Samples
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import EvaluateJob, Evaluation, ModelReference, TrainJob, Workspace
from coterie.models.vector import FlatModule, initial_vector
from coterie.tasks import Task

BITS = 2**127 + 12345
Build = Callable[[], nn.Module]


def deep() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.Softsign(), nn.Linear(8, 5), nn.Softsign(), nn.Linear(5, CLASSES)
    )


def dropping() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES)
    )


def normalised(momentum: float | None = 0.1) -> nn.Module:
    return nn.Sequential(
        # A bias before batch normalisation has no gradient but rounding errors.
        nn.Linear(FEATURES, 8, bias=False),
        nn.BatchNorm1d(8, momentum=momentum),
        nn.ReLU(),
        nn.Linear(8, CLASSES),
    )


def counting() -> nn.Module:
    """Return a module whose statistics depend on how many batches it has seen."""
    return normalised(momentum=None)


def regressing() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 1))


class Watched(nn.Module):
    """Keeps the batches it is trained with, so that a loop by hand can use the very same ones."""

    def __init__(self, seen: list[torch.Tensor], module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.seen = seen

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(inputs.clone())
        return self.module(inputs)


def a_pool(count: int, *, seed: int = 0, regression: bool = False) -> Pool:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, FEATURES)).astype(np.float32)
    if regression:
        return Pool(inputs, (inputs.sum(axis=1) + rng.normal(size=count)).astype(np.float32))
    targets = inputs[:, :CLASSES].argmax(axis=1)
    targets[0] = CLASSES - 1
    return Pool(inputs, targets.astype(np.int64))


class Bench:
    """A trainer with two models of the same start, and what is needed to check on it."""

    def __init__(
        self,
        build: Build = small_module,
        pools: Sequence[Pool] | Pool | None = None,
        *,
        regression: bool = False,
        **settings: object,
    ) -> None:
        pools = pools or a_pool(10, regression=regression)
        self.pools = [pools] if isinstance(pools, Pool) else list(pools)
        self.start = initial_vector(build, 7)
        self.models = np.stack([self.start, self.start])
        self.batches: list[torch.Tensor] = []
        self.build = build
        self.regression = regression
        self.settings = TrainingSettings(**settings)
        self.trainer = TorchTrainer(
            lambda: Watched(self.batches, build()),
            self.settings,
            Workspace(self.pools, {"current": self.models}),
            Task("mse" if regression else "cross-entropy"),
        )

    def samples(self, samples: Samples | None = None) -> Samples:
        return samples or Samples(0, 0, len(self.pools[0].targets))

    def train(
        self,
        peer: int = 0,
        *,
        bits: int = BITS,
        epochs: int = 1,
        samples: Samples | None = None,
        last_layers: int | None = None,
    ) -> float:
        job = TrainJob(
            ModelReference("current", peer), self.samples(samples), epochs, bits, last_layers
        )
        (loss,) = self.trainer.train([job])
        return loss

    def evaluate(self, peer: int = 0, samples: Samples | None = None) -> Evaluation:
        job = EvaluateJob(ModelReference("current", peer), self.samples(samples))
        (evaluation,) = self.trainer.evaluate([job])
        return evaluation

    def module(self, vector: np.ndarray | None = None) -> FlatModule:
        flat = FlatModule(self.build())
        flat.load(self.start if vector is None else vector)
        return flat

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample."""
        if self.regression:
            return (outputs[:, 0] - targets) ** 2
        return F.cross_entropy(outputs, targets, reduction="none")

    def targets_of(self, batch: torch.Tensor) -> torch.Tensor:
        """Find the targets of a batch by its inputs, all of which are different."""
        pool = self.pools[0]
        rows = [np.flatnonzero((pool.inputs == one).all(axis=1)).item() for one in batch.numpy()]
        return torch.from_numpy(pool.targets[rows])

    def by_hand(
        self,
        optimizer: Callable[..., torch.optim.Optimizer],
        batches: Sequence[torch.Tensor],
        **options: float,
    ) -> tuple[np.ndarray, list[float]]:
        """Train a plain torch module with a plain torch loop; return its vector and all losses."""
        flat = self.module()
        module = self.build().train()
        module.load_state_dict(flat.module.state_dict())
        steps = optimizer(module.parameters(), **options)
        losses: list[float] = []
        for batch in batches:
            each = self.loss(module(batch), self.targets_of(batch))
            steps.zero_grad()
            each.mean().backward()
            steps.step()
            losses += each.tolist()
        flat.module.load_state_dict(module.state_dict())
        vector = np.empty_like(self.start)
        flat.store(vector)
        return vector, losses


def order(bench: Bench) -> list[list[float]]:
    """Return the first features of the batches seen, and forget them."""
    seen = [batch[:, 0].tolist() for batch in bench.batches]
    bench.batches.clear()
    return seen
