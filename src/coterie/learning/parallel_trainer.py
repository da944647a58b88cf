"""The parallel trainer: divides the jobs of a round among worker processes.

It uses processes because at batch size 8 torch spends most of its time in Python, where only one
thread runs at a time. Workers are forked once, before training. Models and data are in shared
memory, so only jobs are sent, and the placements of matrices that were allocated after the fork.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeAlias, TypeVar

import torch

from coterie.errors import WorkerDied
from coterie.learning.trainer import EvaluateJob, Evaluation, Trainer, TrainJob
from coterie.processes.shared_memory import Placement
from coterie.processes.worker_process import become_worker, hold_signals

Job = TypeVar("Job")
Result = TypeVar("Result")
Placements: TypeAlias = Mapping[str, Placement]

_worker_trainer: Trainer | None = None


def can_fork() -> bool:
    """Whether forked workers are safe: only on Linux, elsewhere system libraries break."""
    return sys.platform == "linux"


class ParallelTrainer(Trainer):
    """Divides jobs among forked copies of another trainer; the results are the same bits."""

    def __init__(self, trainer: Trainer, num_workers: int) -> None:
        self.layout = trainer.layout
        self.workspace = trainer.workspace
        self.name = trainer.name
        self._seen_by_workers = dict(trainer.workspace.placements)
        self._num_workers = num_workers
        self._executor = ProcessPoolExecutor(
            num_workers,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_start_worker,
            initargs=(trainer, os.getpid()),
        )
        # Fork now, while this process has no other threads.
        with hold_signals():
            self._run(_ready, [None] * num_workers)

    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place."""
        return self._run(_train, jobs)

    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model."""
        return self._run(_evaluate, jobs)

    def close(self) -> None:
        """End the workers."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: Callable[[Placements, Job], Result], jobs: Sequence[Job]) -> list[Result]:
        chunk = max(1, len(jobs) // (8 * self._num_workers))
        news = {
            name: placement
            for name, placement in self.workspace.placements.items()
            if self._seen_by_workers.get(name) != placement
        }
        try:
            return list(self._executor.map(partial(work, news), jobs, chunksize=chunk))
        except BrokenProcessPool:
            raise WorkerDied(
                "A worker process died, most likely because memory ran out. Free some memory or "
                "use fewer --threads, then resume the run: it continues from its last checkpoint."
            ) from None


def _start_worker(trainer: Trainer, parent: int) -> None:
    global _worker_trainer  # noqa: PLW0603 — a forked worker has one trainer
    _worker_trainer = trainer
    torch.set_num_threads(1)
    become_worker(parent)


def _bound(news: Placements) -> Trainer:
    """Return this worker's trainer, with the new matrices in its workspace."""
    if _worker_trainer is None:
        raise RuntimeError("This function runs in worker processes only.")
    _worker_trainer.workspace.adopt(news)
    return _worker_trainer


def _ready(news: Placements, _: None) -> None:
    _bound(news)


def _train(news: Placements, job: TrainJob) -> float:
    return _bound(news).train([job])[0]


def _evaluate(news: Placements, job: EvaluateJob) -> Evaluation:
    return _bound(news).evaluate([job])[0]
