"""Records the estimates that peers have of each other's similarity, in some rounds.

In the table `beliefs` a round of K peers has up to K(K−1) rows. Therefore only some rounds are
recorded, and in large networks only some peers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.settings import SimulationSettings
from coterie.strategies.strategy import Estimates

MAX_ROWS = 10_000
"""Rows that a round may add: all estimates of 100 peers."""
Peers = npt.NDArray[np.int64]


def is_estimate_round(number: int, settings: SimulationSettings, *, is_last: bool) -> bool:
    """Return whether estimates are recorded after this round."""
    wanted = settings.watch.beliefs
    if wanted == 0:
        return False
    return is_last or number % max(math.ceil(settings.rounds / wanted), 1) == 0


def recorded_peers(clusters: Peers) -> Peers:
    """Return the peers whose estimates are recorded: all, or some of each true cluster (K,).

    They are the same in every round, and no random number is used.
    """
    num_peers = len(clusters)
    count = min(num_peers, max(MAX_ROWS // max(num_peers - 1, 1), 1))
    by_cluster = np.argsort(clusters, kind="stable")
    return np.sort(by_cluster[np.linspace(0, num_peers - 1, count).round().astype(np.int64)])


def estimate_columns(
    estimates: Mapping[int, Estimates | None], clusters: Peers
) -> dict[str, npt.NDArray[Any]]:
    """Return one row per peer and other peer that it has an estimate of.

    Values are rounded to float32, which halves the file.
    """
    known = {peer: each for peer, each in estimates.items() if each is not None}
    if not known:
        return {}
    counts = [len(each.peers) for each in known.values()]
    peers = np.repeat(np.array(list(known), np.int64), counts)
    others, similarities, measured, probabilities = (
        np.concatenate([getattr(each, name) for each in known.values()])
        for name in ("peers", "similarities", "measured", "probabilities")
    )
    return {
        "peer": peers.astype(np.int32),
        "cluster": clusters[peers].astype(np.int32),
        "other": others.astype(np.int32),
        "other_cluster": clusters[others].astype(np.int32),
        "origin": np.where(measured, "measured", "estimated").astype(object),
        "similarity": _single(similarities),
        "probability": _single(probabilities),
    }


def _single(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)
