"""The interface of trainers: they train and evaluate the models of a workspace.

All trainers accept the same jobs. For the same jobs a trainer always returns the same bits, with
any number of threads or processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coterie.data.pools import Pool, Samples
from coterie.models.layout import Layout
from coterie.processes.shared_memory import GrowingMemory, Placement
from coterie.randomness import generator

Matrix = npt.NDArray[np.float32]


@dataclass
class Workspace:
    """The data of jobs: pools of samples, and matrices of models (rows, P) by name."""

    pools: list[Pool]
    matrices: dict[str, Matrix] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict, init=False)
    """The placements of matrices from `allocate`."""
    _memory: GrowingMemory = field(default_factory=GrowingMemory, init=False)

    def allocate(self, name: str, shape: tuple[int, int]) -> Matrix:
        """Return a new matrix of zeros for `name`, which workers see even if forked before."""
        self.matrices[name], self.placements[name] = self._memory.add(shape, np.float32)
        return self.matrices[name]

    def adopt(self, placements: Mapping[str, Placement]) -> None:
        """In a worker, add the matrices that the parent has allocated since the fork."""
        for name, placement in placements.items():
            if self.placements.get(name) != placement:
                self.matrices[name] = self._memory.at(placement)
                self.placements[name] = placement

    def model(self, reference: ModelReference) -> Matrix:
        """Return a model (P,), as a writable view."""
        row: Matrix = self.matrices[reference.matrix][reference.row]
        return row

    def evaluated(self, job: EvaluateJob, layout: Layout) -> Matrix:
        """Return the model (P,) that a job evaluates; a copy if its buffers are of another."""
        if job.buffers is None:
            return self.model(job.model)
        mixed = self.model(job.buffers).copy()
        for part in layout.trainable_slices():
            mixed[part] = self.model(job.model)[part]
        return mixed


@dataclass(frozen=True)
class ModelReference:
    """A row of one of the workspace's matrices."""

    matrix: str
    row: int


@dataclass(frozen=True)
class TrainJob:
    """A model to train in place; `bits` are the seed of the batch order and of random layers."""

    model: ModelReference
    samples: Samples
    epochs: int
    bits: int
    last_layers: int | None = None


def batch_order(job: TrainJob) -> npt.NDArray[np.int64]:
    """Return the order of a job's samples in training, (epochs, n); the same for all trainers."""
    rng = generator(job.bits, "batches")
    return np.stack([rng.permutation(len(job.samples)) for _ in range(job.epochs)])


@dataclass(frozen=True)
class EvaluateJob:
    """A model to evaluate on samples."""

    model: ModelReference
    samples: Samples
    with_metrics: bool = False
    """Whether to compute the task's further metrics too."""
    buffers: ModelReference | None = None
    """The model whose float buffers are used; None: its own."""


@dataclass(frozen=True)
class Evaluation:
    """Losses per sample (n,), the task's score, and its further metrics if they were asked for."""

    losses: npt.NDArray[np.float32]
    score: float
    metrics: tuple[float, ...] = ()

    @property
    def loss(self) -> float:
        """The mean loss over samples."""
        return float(self.losses.mean(dtype=np.float64))


class Unsupported(Exception):  # noqa: N818 — not an error: another trainer takes over
    """A trainer cannot train a module; the message has the reason."""


class Trainer(ABC):
    """Trains and evaluates models of one layout in one workspace."""

    layout: Layout
    workspace: Workspace
    name: str
    """Trainers with equal names give the same bits."""

    @abstractmethod
    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place; return the mean losses of the last epoch.

        The loss of a model with values that are not finite is NaN.
        """

    @abstractmethod
    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model."""

    def close(self) -> None:  # noqa: B027 — most trainers have nothing to release
        """Release threads and processes."""
