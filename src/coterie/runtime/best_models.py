"""Each peer's best model so far, by one of two rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.learning.trainer import Matrix
from coterie.processes.shared_memory import shared_array
from coterie.runtime.early_stopping import EarlyStopping
from coterie.runtime.settings import BestRule, SimulationSettings
from coterie.tasks import Task

Peers = npt.NDArray[np.int64]


class BestModels:
    """The best models (K, P), their validation, and their last test results."""

    def __init__(
        self, rule: BestRule, settings: SimulationSettings, current: Matrix, task: Task
    ) -> None:
        self.rule = rule
        self.models: Matrix = shared_array(current.shape, np.float32)
        self.progress = EarlyStopping(settings, len(current), task.score)
        self.tested = np.full((2 + len(task.metrics), len(current)), np.nan)
        """Losses, scores and further metrics, (2 + M, K); NaN: not tested yet."""
        self.models[:] = current

    def reset(self, current: Matrix, round_number: int) -> None:
        """Forget the best models: the data have changed."""
        self.progress.reset(round_number)
        self.models[:] = current
        self.tested[:] = np.nan

    def consider(
        self, current: Matrix, peers: Peers, round_number: int, values: npt.NDArray[np.float64]
    ) -> None:
        """Keep working models that validate better; `values`: losses and scores, (2, n)."""
        improved = self.progress.consider(peers, round_number, values[0], values[1])
        copy_rows(self.models, current, improved)
        self.tested[:, improved] = np.nan

    def save(self) -> dict[str, Any]:
        """Return what must survive between rounds."""
        return {"best": self.models, "tested": self.tested, "progress": self.progress.save()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take back what `save` returned."""
        self.models[:] = saved["best"]
        self.tested[:] = saved["tested"]
        self.progress.restore(saved["progress"])


def copy_rows(target: Matrix, source: Matrix, rows: Peers) -> None:
    """Copy some models one by one: indexing a matrix by rows would make another copy of them."""
    for row in rows:
        target[row] = source[row]
