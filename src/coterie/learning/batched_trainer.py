"""The batched trainer: trains many peers at once, for GPUs, which need large operations.

Jobs of equal shape form groups, and groups are divided into chunks. The weights of a chunk are one
matrix (C, P), and all its models take each step together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coterie.data.pools import Samples
from coterie.errors import TrainingError
from coterie.learning.device import exact, free_unused, is_out_of_memory, memory_budget
from coterie.learning.keyed_dropout import WORDS
from coterie.learning.module_calls import check_module, evaluation_of, single_threaded
from coterie.learning.settings import TrainingSettings
from coterie.learning.stacked_module import StackedModule, StackedTraining
from coterie.learning.torch_trainer import EVALUATION_BATCH
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    Matrix,
    Trainer,
    TrainJob,
    Unsupported,
    Workspace,
    batch_order,
)
from coterie.randomness import generator
from coterie.tasks import Task

Job = TypeVar("Job", TrainJob, EvaluateJob)
Result = TypeVar("Result")
VECTORS = 8
"""Vectors (P,) of a model in training: weights, gradient, moments, and temporary ones."""
TIMES_SAVED = 3
"""Memory of a batch, as a multiple of what autograd saves: gradients, copies for grouped layers."""


@dataclass(frozen=True)
class _Data:
    """The samples of a chunk on the device; jobs with the same samples share them."""

    inputs: torch.Tensor
    """(different samples, n, *shape)."""
    targets: torch.Tensor
    """(different samples, n)."""
    places: torch.Tensor
    """The place of each job's samples, (C,)."""

    def pick(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs (C, b, *shape) and targets (C, b): of each job those in `rows` (C, b)."""
        places = self.places[:, None]
        return self.inputs[places, rows], self.targets[places, rows]


class BatchedTrainer(Trainer):
    """Trains through torch.func on one device; jobs do not affect each other's results.

    Only rounding does: the number of models in a chunk may change the last bits.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        settings: TrainingSettings,
        workspace: Workspace,
        device: torch.device,
        task: Task,
    ) -> None:
        module = build()
        check_module(module, workspace.pools, task)
        if any(isinstance(pool.inputs, tuple | dict) for pool in workspace.pools):
            raise Unsupported("it has several inputs")
        self.name = f"batched {device.type}"
        self._module = StackedModule(module, device, task)
        self.layout = self._module.layout
        self._settings = settings
        self.workspace = workspace
        self._device = device
        self._task = task
        self._most_at_once = settings.peers_at_once
        self._budget = memory_budget(device)
        with single_threaded(), exact():
            self._sample_bytes, self._saved_bytes = self._try_out()

    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place, jobs of equal shape together."""
        return self._in_groups(
            jobs,
            lambda job: (len(job.samples), job.epochs, job.last_layers),
            self._train,
            lambda job: self._training_bytes(len(job.samples)),
        )

    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model, jobs with as many samples together."""
        bytes_each = 2 * self.layout.num_bytes + EVALUATION_BATCH * self._batch_bytes
        return self._in_groups(
            jobs, lambda job: len(job.samples), self._evaluate, lambda _: bytes_each
        )

    def _in_groups(
        self,
        jobs: Sequence[Job],
        shape_of: Callable[[Job], Hashable],
        work: Callable[[Sequence[Job]], list[Result]],
        bytes_of: Callable[[Job], int],
    ) -> list[Result]:
        """Do jobs of equal shape together, as many as are expected to fit into memory."""
        groups: dict[Hashable, list[int]] = {}
        for number, job in enumerate(jobs):
            groups.setdefault(shape_of(job), []).append(number)
        results: dict[int, Result] = {}
        with single_threaded(), exact():
            for numbers in groups.values():
                group = [jobs[number] for number in numbers]
                fitting = max(1, self._budget // bytes_of(group[0]))
                results.update(zip(numbers, self._in_chunks(group, work, fitting), strict=True))
        return [results[number] for number in range(len(jobs))]

    def _in_chunks(
        self, jobs: Sequence[Job], work: Callable[[Sequence[Job]], list[Result]], fitting: int
    ) -> list[Result]:
        results: list[Result] = []
        while len(results) < len(jobs):
            size = min(fitting, self._most_at_once or fitting)
            chunk = jobs[len(results) : len(results) + size]
            done = self._attempt(work, chunk)
            if done is not None:
                results += done
            elif len(chunk) > 1:
                # Also for the next chunks, which would not fit either.
                self._most_at_once = len(chunk) // 2
            else:
                raise TrainingError(
                    f"The device '{self._device.type}' has too little memory for a single model. "
                    "Close other programs that use it, lower training.batch_size, or train on the "
                    "CPU: training.device = cpu."
                )
        return results

    def _attempt(
        self, work: Callable[[Sequence[Job]], list[Result]], chunk: Sequence[Job]
    ) -> list[Result] | None:
        """Return the results of a chunk; None if memory ran out, with nothing changed."""
        try:
            return work(chunk)
        except (RuntimeError, ValueError, IndexError) as error:
            if not is_out_of_memory(error):
                raise TrainingError(f"The module failed while computing: {error}") from error
        # Only here, because the error kept references to the tensors.
        free_unused(self._device)
        return None

    def _train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train the models of jobs of one shape together, and write them at the end."""
        first = jobs[0]
        training = StackedTraining(
            self._module,
            self._load([self.workspace.model(job.model) for job in jobs]),
            self._settings,
            first.last_layers,
        )
        data = self._upload([job.samples for job in jobs])
        orders = self._tensor(np.stack([batch_order(job) for job in jobs]))
        size = self._settings.batch_size
        starts = range(0, len(first.samples), size)
        keys = self._dropout_keys(jobs, first.epochs * len(starts))
        losses: list[torch.Tensor] = []
        for epoch in range(first.epochs):
            losses.clear()
            for number, start in enumerate(starts):
                rows = orders[:, epoch, start : start + size]
                mean = training.step(*data.pick(rows), keys[:, epoch * len(starts) + number])
                losses.append(mean * rows.shape[1])
        weights = training.weights().cpu().numpy()
        # Not every device has double precision, so the CPU computes the sum.
        sums = torch.stack(losses).cpu().sum(dim=0, dtype=torch.float64).numpy()
        for job, trained in zip(jobs, weights, strict=True):
            row = self.workspace.model(job.model)
            for part in self.layout.last_layers(job.last_layers):
                row[part] = trained[part]
        broken = ~np.isfinite(weights).all(axis=1)
        return [float(loss) for loss in np.where(broken, np.nan, sums / len(first.samples))]

    def _evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        weights = self._load([self.workspace.evaluated(job, self.layout) for job in jobs])
        losses, outputs = [], []
        for start in range(0, len(jobs[0].samples), EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            data = self._upload([job.samples for job in jobs], part)
            found = self._module.evaluate(
                weights, data.inputs[data.places], data.targets[data.places]
            )
            losses.append(found[0].cpu().numpy())
            outputs.append(found[1].cpu())
        every = zip(jobs, torch.cat(outputs, dim=1), np.concatenate(losses, axis=1), strict=True)
        return [
            evaluation_of(self._task, job, mine, self._targets(job.samples), lost)
            for job, mine, lost in every
        ]

    def _targets(self, samples: Samples) -> torch.Tensor:
        return torch.from_numpy(self.workspace.pools[samples.pool].targets[samples.rows()])

    def _load(self, models: Sequence[Matrix]) -> torch.Tensor:
        """Return models as one tensor (C, P) on the device."""
        return self._tensor(np.stack(models))

    def _upload(self, samples: Sequence[Samples], part: slice = slice(None)) -> _Data:
        """Return a part of each job's samples, all of equal number.

        They are read from the pools each time, because a drift changes the pools.
        """
        place_of: dict[Hashable, int] = {}
        rows: list[tuple[int, npt.NDArray[np.int64]]] = []
        places = []
        for mine in samples:
            # No other array has this id while the jobs exist.
            key = (mine.pool, mine.start, mine.stop, id(mine.chosen))
            if key not in place_of:
                place_of[key] = len(rows)
                rows.append((mine.pool, mine.rows()[part]))
            places.append(place_of[key])
        pools = self.workspace.pools
        return _Data(
            self._tensor(np.stack([pools[pool].only_inputs[numbers] for pool, numbers in rows])),
            self._tensor(np.stack([pools[pool].targets[numbers] for pool, numbers in rows])),
            self._tensor(np.array(places)),
        )

    def _dropout_keys(self, jobs: Sequence[TrainJob], num_steps: int) -> torch.Tensor:
        """Return the keys of each job, step and dropout layer, (C, steps, layers, 2)."""
        shape = (num_steps, len(self._module.dropout_keys), WORDS)
        return self._tensor(
            np.stack([generator(job.bits, "dropout").integers(0, 2**32, shape) for job in jobs])
        )

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    @property
    def _batch_bytes(self) -> int:
        """The memory of one sample of a batch."""
        return self._sample_bytes + TIMES_SAVED * self._saved_bytes

    def _training_bytes(self, num_samples: int) -> int:
        """Return the approximate memory of a model in training."""
        return (
            VECTORS * self.layout.num_bytes
            + num_samples * self._sample_bytes
            + self._settings.batch_size * self._batch_bytes
        )

    def _try_out(self) -> tuple[int, int]:
        """Train and evaluate two separate models on two samples.

        Return the bytes of a sample, and the bytes that autograd saves for it.
        """
        pool = self.workspace.pools[0]
        rows = np.array([[0, len(pool.targets) - 1]] * 2)
        inputs, targets = self._tensor(pool.only_inputs[rows]), self._tensor(pool.targets[rows])
        weights = torch.zeros(2, self.layout.size, device=self._device)
        keys = torch.zeros(2, len(self._module.dropout_keys), WORDS, dtype=torch.int64)
        try:
            training = StackedTraining(self._module, weights, self._settings, None)
            training.step(inputs, targets, keys.to(self._device))
            self._module.evaluate(weights, inputs, targets)
            saved = self._module.saved_bytes(inputs[0])
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            reason = str(error).strip().split("\n")[0].removesuffix(".")
            raise Unsupported(f"torch.func cannot run it ({reason})") from None
        return int(inputs[0, 0].nbytes), saved
