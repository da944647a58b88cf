"""Restraint: who trains less when training does harm and merging makes no progress."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.strategies.kin.paired_test import Losses, is_worse, mean_loss

State = dict[str, npt.NDArray[np.float64]]


class Restraint:
    """How many epochs each peer trains in a round, between none and the configured ones.

    Training often makes a merged model worse, and yet the average of such models gets better from
    round to round: then all is well. Only when it does not, a training that made validation worse,
    by Kin's paired test, is followed by one that is an epoch shorter. Progress, and a round without
    training, make the next an epoch longer.
    """

    def __init__(self, most_epochs: int, num_peers: int) -> None:
        self._most_epochs = most_epochs
        self.epochs = np.full(num_peers, most_epochs, dtype=np.int64)
        self._lowest = np.full(num_peers, np.inf)
        """The lowest validation loss that a peer's model had before a training."""

    def record_training(self, peer: int, before: Losses, after: Losses) -> None:
        """Take in a peer's validation losses before and after its training, (n,) each."""
        reached = mean_loss(before)
        if reached < self._lowest[peer] or self.epochs[peer] == 0:
            self.epochs[peer] = min(self.epochs[peer] + 1, self._most_epochs)
        elif is_worse(after, before):
            self.epochs[peer] -= 1
        self._lowest[peer] = min(self._lowest[peer], reached)

    def reset(self) -> None:
        """The data have changed: what was reached on others means nothing."""
        self.epochs[:] = self._most_epochs
        self._lowest[:] = np.inf

    def save(self) -> State:
        """Return what must survive between rounds."""
        return {"epochs": self.epochs.astype(np.float64), "lowest": self._lowest}

    def restore(self, saved: State) -> None:
        """Take back what `save` returned."""
        self.epochs[:] = saved["epochs"]
        self._lowest[:] = saved["lowest"]
