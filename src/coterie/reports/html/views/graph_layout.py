"""Places for the nodes of a graph: nodes that prefer each other are placed together."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from coterie.randomness import generator

Places = npt.NDArray[np.float64]
ITERATIONS, FIRST_ITERATIONS = 50, 150
ATTRACTION = 6.0
"""How strongly all preferred nodes together attract a node."""


def spread_nodes(num_nodes: int) -> Places:
    """Return places (B, 2) evenly spread over a disc, in random order."""
    order = generator(0, "places of nodes").permutation(num_nodes)
    radius = np.sqrt((order + 0.5) / num_nodes)
    angle = order * math.pi * (3 - math.sqrt(5))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def move_nodes(places: Places, shares: npt.NDArray[np.float64], iterations: int) -> Places:
    """Return places (B, 2) after nodes attracted and repelled each other (Fruchterman, Reingold).

    `shares` (B, B) is how much a row prefers a column. Only shares above random choice attract.
    """
    num_nodes = len(places)
    if num_nodes < 2:
        return places
    distance = 1.6 / math.sqrt(num_nodes)
    attraction = _preferences(shares) * 4.0 / distance
    places = places.copy()
    for iteration in range(iterations):
        squares = (places**2).sum(axis=1)
        apart = np.maximum(squares[:, None] + squares[None, :] - 2 * (places @ places.T), 1e-9)
        away = distance**2 / apart - attraction * np.sqrt(apart)
        # Σ_j a_ij (x_i − x_j), without the differences of all pairs.
        forces = away.sum(axis=1, keepdims=True) * places - away @ places
        forces -= 0.6 * places  # gravity keeps separate groups in the picture
        step = 0.12 * (1 - iteration / iterations) + 0.004
        size = np.sqrt((forces**2).sum(axis=1, keepdims=True)) + 1e-9
        places += forces / size * np.minimum(size, 1.0) * step
    places -= places.mean(axis=0)
    return places


def scale_places(places: list[Places]) -> npt.NDArray[np.uint16]:
    """Return all places (W, B, 2) as integers from 0 to 1000, with one scale for all windows."""
    reach = max(float(np.abs(each).max()) for each in places) or 1.0
    size = max(len(each) for each in places)
    padded = [np.pad(each, ((0, size - len(each)), (0, 0))) for each in places]
    return np.round((np.stack(padded) / reach + 1) * 500).astype(np.uint16)


def _preferences(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return how much two nodes prefer each other above random choice, (B, B), 0 to 1."""
    num_nodes = len(shares)
    both = (shares + shares.T) / 2
    above = np.maximum(both - 1 / max(num_nodes - 1, 1), 0.0)
    np.fill_diagonal(above, 0.0)
    most = above.sum(axis=1).max()
    # The sum of a node's attraction is bounded, so large groups do not collapse.
    return np.clip(ATTRACTION * above / most, 0, 1) if most > 0 else above
