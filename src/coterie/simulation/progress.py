"""Each peer's memory of its best model, and early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.simulation.settings import SimulationSettings

WINDOW = 5
"""How many validation accuracies are averaged when the best is chosen by accuracy (PENS)."""


class Progress:
    """Per peer: how good its best model is, when it was found, and whether it has stopped."""

    def __init__(self, settings: SimulationSettings, num_peers: int) -> None:
        self._settings = settings
        self.best_value = np.full(num_peers, np.inf)
        """The lowest validation loss, or minus the highest averaged accuracy, (K,)."""
        self.best_round = np.zeros(num_peers, dtype=np.int64)
        self.stopped = np.zeros(num_peers, dtype=bool)
        self.tireless = np.zeros(num_peers, dtype=bool)
        """Who never stops, and is not waited for either."""
        self._recent = np.full((num_peers, WINDOW), np.nan)

    def consider(
        self,
        peers: npt.NDArray[np.int64],
        round_number: int,
        losses: npt.NDArray[np.float64],
        accuracies: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.int64]:
        """Judge one model of each peer by its validation; return the peers with a new best."""
        values = losses
        if self._settings.best_by == "accuracy":
            recent = np.roll(self._recent[peers], 1, axis=1)
            recent[:, 0] = accuracies
            self._recent[peers] = recent
            values = -np.nanmean(recent, axis=1)
        better = values < self.best_value[peers]
        improved = peers[better]
        self.best_value[improved] = values[better]
        self.best_round[improved] = round_number
        return improved

    def stop_impatient(self, round_number: int) -> npt.NDArray[np.int64]:
        """Stop the peers that found nothing better for `patience` rounds; return who they are."""
        if self._settings.patience is None:
            return np.zeros(0, dtype=np.int64)
        waited = round_number - self.best_round >= self._settings.patience
        stopping = np.flatnonzero(waited & ~self.stopped & ~self.tireless)
        self.stopped[stopping] = True
        return stopping

    @property
    def everybody_stopped(self) -> bool:
        """Whether nobody is left who could find anything better."""
        return bool((self.stopped | self.tireless).all())

    def start_anew(self, round_number: int) -> None:
        """Forget the bests and wake everybody up: the data have changed."""
        self.best_value[:] = np.inf
        # Patience counts from the last round on the old data.
        self.best_round[:] = round_number - 1
        self.stopped[:] = False
        self._recent[:] = np.nan

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {
            "best_value": self.best_value,
            "best_round": self.best_round,
            "stopped": self.stopped.astype(np.uint8),
            "recent": self._recent,
        }

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what `save` returned."""
        self.best_value[:] = state["best_value"]
        self.best_round[:] = state["best_round"]
        self.stopped[:] = state["stopped"].astype(bool)
        self._recent[:] = state["recent"]
