"""The native trainer: divides jobs among threads, which run them in compiled code.

A call trains or evaluates whole models without Python's lock, so threads run in parallel. The
result of a job does not depend on its thread.
"""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from coterie.errors import ConfigError
from coterie.learning.module_calls import evaluation_of, single_threaded
from coterie.learning.native.compiled_network import CompiledNetwork, address
from coterie.learning.native.library import OPTIMIZERS, EvaluateCall, Library, TrainCall, Training
from coterie.learning.native.step import Step
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    Matrix,
    ModelReference,
    Trainer,
    TrainJob,
    Workspace,
    batch_order,
)
from coterie.models.layout import Layout
from coterie.tasks import Task

Job = TypeVar("Job")
Result = TypeVar("Result")
CHUNKS_PER_THREAD = 8
# The defaults of torch's Adam.
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class NativeTrainer(Trainer):
    """Trains through the compiled library on `threads` threads."""

    def __init__(
        self,
        library: Library,
        steps: Sequence[Step],
        layout: Layout,
        settings: TrainingSettings,
        workspace: Workspace,
        task: Task,
        *,
        threads: int,
    ) -> None:
        self.layout = layout
        self.name = f"native {library.level}"
        self.workspace = workspace
        self._task = task
        self._training = _training(settings)
        networks = [
            CompiledNetwork(
                library,
                steps,
                workspace.pools[0].only_inputs.shape[1:],
                loss=task.loss_name,
                batch_size=settings.batch_size,
                leaves_out=settings.weight_decay == 0,
            )
            for _ in range(threads)
        ]
        self._num_outputs = networks[0].num_outputs
        self._pools = [
            networks[0].samples.data_at(pool.only_inputs, pool.targets) for pool in workspace.pools
        ]
        self._networks: queue.SimpleQueue[CompiledNetwork] = queue.SimpleQueue()
        for network in networks:
            self._networks.put(network)
        self._threads = threads
        self._is_closed = False
        self._executor = ThreadPoolExecutor(threads) if threads > 1 else None

    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place."""
        return self._divide(self._train, jobs)

    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model."""
        if not any(self._needs_outputs(job) for job in jobs):
            return self._divide(self._evaluate, jobs)
        with single_threaded():  # scores are computed with torch
            return self._divide(self._evaluate, jobs)

    def close(self) -> None:
        """End the threads and free the memory of the networks."""
        self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        while not self._networks.empty():
            self._networks.get().close()

    def _divide(
        self, work: Callable[[Sequence[Job]], list[Result]], jobs: Sequence[Job]
    ) -> list[Result]:
        if self._is_closed:  # its networks are gone, so waiting for one would never end
            raise RuntimeError("This trainer is closed.")
        if self._executor is None or len(jobs) < 2:
            return work(jobs)
        size = max(1, len(jobs) // (CHUNKS_PER_THREAD * self._threads))
        chunks = [jobs[start : start + size] for start in range(0, len(jobs), size)]
        return [result for part in self._executor.map(work, chunks) for result in part]

    def _train(self, jobs: Sequence[TrainJob]) -> list[float]:
        orders = [_as_rows(job.samples.rows()[batch_order(job)]) for job in jobs]
        models = [self._address(self.workspace.model(job.model), job.model) for job in jobs]
        calls = (TrainCall * len(jobs))(
            *(
                TrainCall(
                    data=ctypes.pointer(self._pools[job.samples.pool]),
                    model=model,
                    order=address(order),
                    num_samples=len(job.samples),
                    epochs=job.epochs,
                    first_layer=self._first_layer(job.last_layers),
                    bits=job.bits % 2**64,
                )
                for job, model, order in zip(jobs, models, orders, strict=True)
            )
        )
        network = self._networks.get()
        try:
            network.train(self._training, calls)
        finally:
            self._networks.put(network)
        return [float(call.loss) for call in calls]

    def _evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        if not jobs:
            return []
        rows = _rows_of(jobs)
        # All answers are in one array: creating thousands of small ones takes longer than
        # evaluating small models.
        losses = np.empty(sum(len(job.samples) for job in jobs), np.float32)
        correct = np.empty(len(losses), np.bool_) if self._task.counts_correct_classes else None
        wants_outputs = any(self._needs_outputs(job) for job in jobs)
        outputs = np.empty((len(losses) if wants_outputs else 0, self._num_outputs), np.float32)
        calls = (EvaluateCall * len(jobs))()
        parts = []
        start = 0
        models: list[Matrix] = []  # copies are kept until the library has read them
        for call, job in zip(calls, jobs, strict=True):
            models.append(self.workspace.evaluated(job, self.layout))
            part = slice(start, start + len(job.samples))
            call.data = ctypes.pointer(self._pools[job.samples.pool])
            call.model = self._address(models[-1], job.model)
            call.rows = address(rows[id(job.samples)])
            call.num_samples = len(job.samples)
            call.losses = address(losses) + start * losses.itemsize
            if correct is not None:
                call.correct = address(correct) + start
            if wants_outputs:
                call.outputs = address(outputs) + start * outputs.strides[0]
            parts.append(part)
            start = part.stop
        network = self._networks.get()
        try:
            network.evaluate(calls)
        finally:
            self._networks.put(network)
        if wants_outputs:
            return [
                self._scored(job, rows[id(job.samples)], outputs[part], losses[part])
                for job, part in zip(jobs, parts, strict=True)
            ]
        if correct is not None:
            return [Evaluation(losses[part], _mean(correct[part])) for part in parts]
        return [
            Evaluation(losses[part], self._task.score_of_loss(_mean(losses[part])))
            for part in parts
        ]

    def _needs_outputs(self, job: EvaluateJob) -> bool:
        if job.with_metrics and self._task.metrics:
            return True
        return self._task.needs_outputs and not self._task.counts_correct_classes

    def _scored(
        self, job: EvaluateJob, rows: npt.NDArray[np.int64], outputs: Matrix, losses: Matrix
    ) -> Evaluation:
        """Return an evaluation whose scores are computed from the outputs (n, num_outputs)."""
        targets = self.workspace.pools[job.samples.pool].targets[rows]
        return evaluation_of(
            self._task, job, torch.from_numpy(outputs), torch.from_numpy(targets), losses
        )

    def _address(self, row: Matrix, reference: ModelReference) -> int:
        """Return the address of a model."""
        shape = (self.layout.size,)
        if row.shape != shape or row.dtype != np.float32 or not row.flags.c_contiguous:
            raise ConfigError(
                f"Row {reference.row} of '{reference.matrix}' is {row.dtype} of shape {row.shape}, "
                f"but this model needs contiguous float32 of shape {shape}."
            )
        return address(row)

    def _first_layer(self, last_layers: int | None) -> int:
        self.layout.last_layers(last_layers)  # refuses a wrong number
        return 0 if last_layers is None else self.layout.num_layers - last_layers


def _training(settings: TrainingSettings) -> Training:
    return Training(
        optimizer=OPTIMIZERS[settings.optimizer],
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        beta1=BETA1,
        beta2=BETA2,
        epsilon=EPSILON,
    )


def _rows_of(jobs: Sequence[EvaluateJob]) -> dict[int, npt.NDArray[np.int64]]:
    """Return the row numbers of samples, by the samples' `id`; many jobs share samples."""
    asked = {id(job.samples): job.samples for job in jobs}
    return {number: _as_rows(samples.rows()) for number, samples in asked.items()}


def _as_rows(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return row numbers in the format of the library."""
    return np.ascontiguousarray(numbers.astype(np.int64, casting="same_kind", copy=False))


def _mean(values: npt.NDArray[np.float32] | npt.NDArray[np.bool_]) -> float:
    return float(values.mean(dtype=np.float64))
