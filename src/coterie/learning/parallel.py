"""Peers in parallel: the jobs of a round dealt out to worker processes.

Processes, not threads: at batch size 8 torch spends most of its time in Python, where threads take
turns. Workers are forked once, before training starts; models and data lie in memory they share
with their parent, so only small job descriptions travel.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import torch

from coterie.errors import WorkerDied
from coterie.learning.trainer import EvaluateJob, Evaluation, Trainer, TrainJob
from coterie.processes import follow, starting

Job = TypeVar("Job")
Result = TypeVar("Result")

_worker_trainer: Trainer | None = None


def can_fork() -> bool:
    """Whether forked workers are safe: Linux. Elsewhere system libraries break after a fork."""
    return sys.platform == "linux"


class ParallelTrainer(Trainer):
    """Deals jobs out to forked copies of another trainer; the results are the same bits."""

    def __init__(self, trainer: Trainer, num_workers: int) -> None:
        self.layout = trainer.layout
        self.name = trainer.name
        self._num_workers = num_workers
        self._executor = ProcessPoolExecutor(
            num_workers,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_start_worker,
            initargs=(trainer, os.getpid()),
        )
        # Fork now, while this process has no other threads.
        with starting():
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

    def _run(self, work: Callable[[Job], Result], jobs: Sequence[Job]) -> list[Result]:
        chunk = max(1, len(jobs) // (8 * self._num_workers))
        try:
            return list(self._executor.map(work, jobs, chunksize=chunk))
        except BrokenProcessPool:
            raise WorkerDied(
                "A worker process died, most likely because memory ran out. Free some memory or "
                "use fewer --threads, then resume the run; nothing up to its last checkpoint is "
                "lost."
            ) from None


def _start_worker(trainer: Trainer, parent: int) -> None:
    global _worker_trainer  # noqa: PLW0603 — a forked worker is bound to one trainer for life
    _worker_trainer = trainer
    torch.set_num_threads(1)
    follow(parent)


def _bound() -> Trainer:
    if _worker_trainer is None:
        raise RuntimeError("This function runs in worker processes only.")
    return _worker_trainer


def _ready(_: None) -> None:
    _bound()


def _train(job: TrainJob) -> float:
    return _bound().train([job])[0]


def _evaluate(job: EvaluateJob) -> Evaluation:
    return _bound().evaluate([job])[0]
