"""Each peer's best model so far, by one rule of what may become it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.learning.trainer import Matrix
from coterie.processes.shared_memory import shared_array
from coterie.runtime.early_stopping import Progress
from coterie.runtime.settings import BestRule, SimulationSettings

Peers = npt.NDArray[np.int64]


class Bests:
    """The best models (K, P), how good they are, and what they reached when they were tested."""

    def __init__(self, rule: BestRule, settings: SimulationSettings, current: Matrix) -> None:
        self.rule = rule
        self.models: Matrix = shared_array(current.shape, np.float32)
        self.progress = Progress(settings, len(current))
        self.tested = np.full((2, len(current)), np.nan)
        """Losses and accuracies, (2, K); NaN: this best has not been tested yet."""
        self.models[:] = current

    def start_anew(self, current: Matrix, round_number: int) -> None:
        """Forget the bests: the data have changed."""
        self.progress.start_anew(round_number)
        self.models[:] = current
        self.tested[:] = np.nan

    def consider(
        self, current: Matrix, peers: Peers, round_number: int, values: npt.NDArray[np.float64]
    ) -> None:
        """Remember working models that validate better: losses and accuracies, (2, peers)."""
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
    """Copy some models, one by one: picking rows of a matrix would copy them all once more."""
    for row in rows:
        target[row] = source[row]
