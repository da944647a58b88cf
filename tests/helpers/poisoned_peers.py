"""Helpers for tests of poisoned peers: their numbers, and peers with flipped labels."""

from __future__ import annotations

import numpy as np

from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.simulation.simulation import Simulation


def poisoned_numbers(simulation: Simulation) -> list[int]:
    return np.flatnonzero(simulation.state.poisoning.peers).tolist()


def honest_numbers(simulation: Simulation) -> list[int]:
    return np.flatnonzero(~simulation.state.poisoning.peers).tolist()


def peers_with_flipped_labels(flipped: list[int], *, regression: bool) -> PeerArrays:
    """Six peers, some of them with flipped labels in all that they learn from."""
    rng = np.random.default_rng(0)

    def draw(count: int, *, flip: bool):
        points = rng.normal(size=(count, 6)).astype(np.float32)
        if regression:
            return points, points.sum(axis=1) * (-1 if flip else 1)
        labels = points[:, :3].argmax(axis=1)
        return points, 2 - labels if flip else labels

    return PeerArrays(
        [
            PeerData(draw(16, flip=p in flipped), draw(12, flip=p in flipped), draw(9, flip=False))
            for p in range(6)
        ]
    )
