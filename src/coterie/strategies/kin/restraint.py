"""Restraint: the decision how many epochs to train. The training itself is the runtime's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.strategies.kin.paired_test import Losses, is_worse, mean_loss

RestraintState = dict[str, npt.NDArray[np.float64]]


class Restraint:
    """The number of epochs of each peer's next training, from none to the configured number.

    Training often makes a merged model worse, while the average of such models still improves from
    round to round. So training is shortened only without progress: the merged model is no better
    than the best before, and by the paired test training made validation worse. Then the next
    training is one epoch shorter. After progress, and after a round without training, it is one
    epoch longer.

    Parameters
    ----------
    most_epochs
        The configured number of epochs (E).
    num_peers
        Number of peers (K).

    Examples
    --------
    >>> good, worse = np.float32([1.0, 1.2] * 10), np.float32([2.0, 3.2] * 10)
    >>> restraint = Restraint(most_epochs=3, num_peers=1)
    >>> restraint.record_training(0, before=good, after=worse)  # lowest loss so far: progress
    >>> restraint.record_training(0, before=good, after=worse)
    >>> restraint.epochs
    array([2])
    """

    def __init__(self, most_epochs: int, num_peers: int) -> None:
        self._most_epochs = most_epochs
        self.epochs = np.full(num_peers, most_epochs, dtype=np.int64)
        self._lowest = np.full(num_peers, np.inf)
        """The lowest validation loss of each peer's model before a training, (K,)."""

    def record_training(self, peer: int, before: Losses, after: Losses) -> None:
        """Adapt a peer's epochs to its validation losses before and after training, (n,) each."""
        reached = mean_loss(before)
        if reached < self._lowest[peer] or self.epochs[peer] == 0:
            self.epochs[peer] = min(self.epochs[peer] + 1, self._most_epochs)
        elif is_worse(after, before):
            self.epochs[peer] -= 1
        self._lowest[peer] = min(self._lowest[peer], reached)

    def reset(self) -> None:
        """Start from the configured epochs again, because the data have changed."""
        self.epochs[:] = self._most_epochs
        self._lowest[:] = np.inf

    def save(self) -> RestraintState:
        """Return the state between rounds."""
        return {"epochs": self.epochs.astype(np.float64), "lowest": self._lowest}

    def restore(self, saved: RestraintState) -> None:
        """Restore what `save` returned."""
        self.epochs[:] = saved["epochs"]
        self._lowest[:] = saved["lowest"]
