"""The seam between deciding and computing: a trainer trains and evaluates models in a workspace.

Every implementation answers the same jobs and, from the same jobs, always returns the same bits,
however many threads or processes it uses.
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
    """Everything jobs refer to: data pools, and model matrices (rows, P) by name."""

    pools: list[Pool]
    matrices: dict[str, Matrix] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict, init=False)
    """Where the matrices lie that `allocate` made."""
    _memory: GrowingMemory = field(default_factory=GrowingMemory, init=False)

    def allocate(self, name: str, shape: tuple[int, int]) -> Matrix:
        """Make a matrix of zeros that workers see, also those that were forked before.

        A matrix of the same name is replaced.
        """
        self.matrices[name], self.placements[name] = self._memory.add(shape, np.float32)
        return self.matrices[name]

    def adopt(self, placements: Mapping[str, Placement]) -> None:
        """In a worker: see the matrices that the parent has allocated since the fork."""
        for name, placement in placements.items():
            if self.placements.get(name) != placement:
                self.matrices[name] = self._memory.at(placement)
                self.placements[name] = placement

    def model(self, reference: ModelReference) -> Matrix:
        """Return the row a reference names, as a writable view (P,)."""
        row: Matrix = self.matrices[reference.matrix][reference.row]
        return row


@dataclass(frozen=True)
class ModelReference:
    """A row of one of the workspace's matrices."""

    matrix: str
    row: int


@dataclass(frozen=True)
class TrainJob:
    """Train a model in place; `bits` seed the batch order and every random layer."""

    model: ModelReference
    samples: Samples
    epochs: int
    bits: int
    last_layers: int | None = None


def batch_order(job: TrainJob) -> npt.NDArray[np.int64]:
    """Return the places of a job's samples in the order of training, (epochs, n).

    Every trainer takes them in this order, so that single steps can be compared.
    """
    rng = generator(job.bits, "batches")
    return np.stack([rng.permutation(len(job.samples)) for _ in range(job.epochs)])


@dataclass(frozen=True)
class EvaluateJob:
    """Measure a model on samples."""

    model: ModelReference
    samples: Samples


@dataclass(frozen=True)
class Evaluation:
    """Per-sample losses (n,), and whether each was classified correctly (n,), if it is a class."""

    losses: npt.NDArray[np.float32]
    correct: npt.NDArray[np.bool_] | None

    @property
    def loss(self) -> float:
        """The mean over samples, never a mean of batch means."""
        return float(self.losses.mean(dtype=np.float64))

    @property
    def accuracy(self) -> float:
        """The share classified correctly; NaN for regression."""
        return float("nan") if self.correct is None else float(self.correct.mean())


class Unsupported(Exception):  # noqa: N818 — not an error: another trainer takes over
    """A trainer cannot train a module; the message says why."""


class Trainer(ABC):
    """Trains and evaluates models of one layout in one workspace."""

    layout: Layout
    workspace: Workspace
    name: str
    """Which arithmetic it does: trainers of one name give the same bits."""

    @abstractmethod
    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place; return the mean sample losses of the last epochs.

        The loss is NaN where training left the finite numbers.
        """

    @abstractmethod
    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model."""

    def close(self) -> None:  # noqa: B027 — most trainers hold nothing that must be released
        """Release threads and processes."""
