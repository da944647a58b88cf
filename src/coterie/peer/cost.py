"""The cost of a round for a peer: seconds of training and evaluation, and of waiting for others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from coterie.learning.trainer import EvaluateJob, Evaluation, Trainer, TrainJob
from coterie.runtime.round import Columns


class CostAccounting:
    """Adds up the work since the end of the last round."""

    def __init__(self) -> None:
        self._work_seconds = self._work_cpu_seconds = 0.0
        self._before = self._spent(0.0)

    def wrap_trainer(self, trainer: Trainer) -> Trainer:
        """Return a trainer whose work is counted here; a counted trainer is returned as is."""
        return trainer if isinstance(trainer, _CountedTrainer) else _CountedTrainer(trainer, self)

    @contextmanager
    def count_work(self) -> Iterator[None]:
        """Count the work inside this context."""
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self._work_seconds += time.perf_counter() - wall
            self._work_cpu_seconds += time.thread_time() - cpu

    def take_columns(self, waited_seconds: float) -> Columns:
        """Return the cost since the last call; `waited_seconds` is a total."""
        now = self._spent(waited_seconds)
        new = {name: np.array([value - self._before[name]]) for name, value in now.items()}
        self._before = now
        this_peer = np.zeros(1, np.int32)
        return {"peer": this_peer, "cluster": this_peer, **new}

    def _spent(self, waited_seconds: float) -> dict[str, float]:
        return {
            "wall_seconds": time.perf_counter(),
            "cpu_seconds": time.process_time(),
            "work_seconds": self._work_seconds,
            "work_cpu_seconds": self._work_cpu_seconds,
            "wait_seconds": waited_seconds,
        }


class _CountedTrainer(Trainer):
    """A trainer that measures the time of its work."""

    def __init__(self, trainer: Trainer, costs: CostAccounting) -> None:
        self.layout = trainer.layout
        self.name = trainer.name
        self._trainer = trainer
        self._costs = costs

    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place."""
        with self._costs.count_work():
            return self._trainer.train(jobs)

    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model."""
        with self._costs.count_work():
            return self._trainer.evaluate(jobs)

    def close(self) -> None:
        """Release what the trainer holds."""
        self._trainer.close()
