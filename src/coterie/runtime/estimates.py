"""Records what peers believe about each other: the tables of their strategies, in some rounds.

In the table `beliefs` a round of K peers has up to K(K−1) rows, which is why few rounds, and in
large networks few peers, have to do.
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
"""How many rows a round may add: 100 peers tell everything they know."""
Peers = npt.NDArray[np.int64]


def estimates_due(number: int, settings: SimulationSettings, *, is_last: bool) -> bool:
    """Whether beliefs are recorded after this round."""
    wanted = settings.watch.beliefs
    if wanted == 0:
        return False
    return is_last or number % max(math.ceil(settings.rounds / wanted), 1) == 0


def asked_peers(clusters: Peers) -> Peers:
    """Return whose beliefs are recorded: everybody's, or a few of each of the true clusters (K,).

    They are the same in every round, and without a draw, so that nothing depends on the choice.
    """
    num_peers = len(clusters)
    count = min(num_peers, max(MAX_ROWS // max(num_peers - 1, 1), 1))
    by_cluster = np.argsort(clusters, kind="stable")
    return np.sort(by_cluster[np.linspace(0, num_peers - 1, count).round().astype(np.int64)])


def estimate_columns(
    believed: Mapping[int, Estimates | None], clusters: Peers
) -> dict[str, npt.NDArray[Any]]:
    """Return one row per peer and other peer it knows something about.

    Values have the precision of float32, which halves the file and is more than anybody can see.
    """
    told = {peer: beliefs for peer, beliefs in believed.items() if beliefs is not None}
    if not told:
        return {}
    counts = [len(beliefs.peers) for beliefs in told.values()]
    peers = np.repeat(np.array(list(told), np.int64), counts)
    others, similarities, measured, probabilities = (
        np.concatenate([getattr(beliefs, name) for beliefs in told.values()])
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
