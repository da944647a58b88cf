"""Early stopping: when each peer last found a better model, and which peers have stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.settings import SimulationSettings
from coterie.tasks import TaskScore

WINDOW = 5
"""Validation scores that are averaged when the best model is chosen by the score (PENS)."""


class EarlyStopping:
    """Per peer: the value of its best model, its round, and whether the peer has stopped."""

    def __init__(self, settings: SimulationSettings, num_peers: int, score: TaskScore) -> None:
        self._settings = settings
        self._sign = score.sign
        self.best_value = np.full(num_peers, np.inf)
        """The lowest validation loss, or the best score times −1 if higher is better, (K,)."""
        self.best_round = np.zeros(num_peers, dtype=np.int64)
        self._lowest_loss = np.full(num_peers, np.inf)
        self._lowest_loss_round = np.zeros(num_peers, dtype=np.int64)
        self.stopped = np.zeros(num_peers, dtype=bool)
        self.never_stops = np.zeros(num_peers, dtype=bool)
        """Peers that never stop, and that the run does not wait for, (K,)."""
        self._recent = np.full((num_peers, WINDOW), np.nan)

    def consider(
        self,
        peers: npt.NDArray[np.int64],
        round_number: int,
        losses: npt.NDArray[np.float64],
        scores: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.int64]:
        """Compare one model of each peer with its best; return the peers that improved."""
        lower = losses < self._lowest_loss[peers]
        self._lowest_loss[peers[lower]] = losses[lower]
        self._lowest_loss_round[peers[lower]] = round_number
        values = self._values(peers, losses, scores)
        better = values < self.best_value[peers]
        improved = peers[better]
        self.best_value[improved] = values[better]
        self.best_round[improved] = round_number
        return improved

    def _values(
        self,
        peers: npt.NDArray[np.int64],
        losses: npt.NDArray[np.float64],
        scores: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Return the values by which the best model is chosen: the lowest wins, (peers,)."""
        match self._settings.best_by:
            case "loss":
                return losses
            case "best-score":
                return -self._sign * scores
        recent = np.roll(self._recent[peers], 1, axis=1)
        recent[:, 0] = scores
        self._recent[peers] = recent
        averages: npt.NDArray[np.float64] = np.nanmean(recent, axis=1)
        return -self._sign * averages

    def stop_early(self, round_number: int) -> npt.NDArray[np.int64]:
        """Stop the peers without a better model for `patience` rounds; return them."""
        if self._settings.patience is None:
            return np.zeros(0, dtype=np.int64)
        # With few validation samples the best score is soon reached by luck.
        by_loss = self._settings.best_by == "best-score"
        last = self._lowest_loss_round if by_loss else self.best_round
        waited = round_number - last >= self._settings.patience
        stopping = np.flatnonzero(waited & ~self.stopped & ~self.never_stops)
        self.stopped[stopping] = True
        return stopping

    @property
    def all_stopped(self) -> bool:
        """Whether no peer is left that could find a better model."""
        return bool((self.stopped | self.never_stops).all())

    def reset(self, round_number: int) -> None:
        """Forget the best models and let all peers train again: the data have changed."""
        self.best_value[:] = np.inf
        # Patience counts from the last round on the old data.
        self.best_round[:] = round_number - 1
        self._lowest_loss[:] = np.inf
        self._lowest_loss_round[:] = round_number - 1
        self.stopped[:] = False
        self._recent[:] = np.nan

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {
            "best_value": self.best_value,
            "best_round": self.best_round,
            "lowest_loss": self._lowest_loss,
            "lowest_loss_round": self._lowest_loss_round,
            "stopped": self.stopped.astype(np.uint8),
            "recent": self._recent,
        }

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what `save` returned."""
        self.best_value[:] = state["best_value"]
        self.best_round[:] = state["best_round"]
        # Checkpoints of versions without best-score have neither.
        self._lowest_loss[:] = state.get("lowest_loss", self.best_value)
        self._lowest_loss_round[:] = state.get("lowest_loss_round", self.best_round)
        self.stopped[:] = state["stopped"].astype(bool)
        self._recent[:] = state["recent"]
