"""The simulated network: which peers are online in a round and which messages arrive."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.randomness import generator
from coterie.runtime.settings import NetworkSettings


class UnreliableNetwork:
    """Draws failures from generators with keys: equal for all strategies and after a resume."""

    def __init__(self, settings: NetworkSettings, num_peers: int, seed: int) -> None:
        self._settings = settings
        self._num_peers = num_peers
        self._seed = seed
        self._round = 0
        self._losses: dict[int, np.random.Generator] = {}

    def start_round(self, round_number: int) -> npt.NDArray[np.bool_]:
        """Start a round; return the peers that are online, (K,). In round 0 all are."""
        self._round = round_number
        self._losses.clear()
        online = np.ones(self._num_peers, dtype=bool)
        if round_number == 0:
            return online
        if self._settings.offline_probability > 0:
            draws = generator(self._seed, "offline", round_number).random(self._num_peers)
            online = draws >= self._settings.offline_probability
        for absence in self._settings.offline_trace:
            if absence.first_round <= round_number <= absence.last_round:
                online[absence.peer] = False
        return online

    def draw_delivery(self, asker: int) -> bool:
        """Return whether the asker's next message arrives."""
        if self._settings.loss_probability == 0:
            return True
        if asker not in self._losses:
            self._losses[asker] = generator(self._seed, "loss", asker, self._round)
        return bool(self._losses[asker].random() >= self._settings.loss_probability)
