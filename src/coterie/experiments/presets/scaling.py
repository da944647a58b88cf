"""Scaling: the same experiment with fewer rounds and peers, for a quick test.

Settings that count rounds shrink with the rounds, and settings that count peers with the peers. So
phases, shifts and early stopping come at the same fraction of the run, and strategies fetch from
the same fraction of peers. Training and the data of each peer do not change.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from coterie.data.drift import FedDrift2, FedDrift4, MatrixDrift, NoDrift
from coterie.data.partition import cluster_of_peers
from coterie.data.shifts import (
    DatasetShift,
    LabelShift,
    LabelSwapShift,
    NoShift,
    RandomLabelShift,
    RotationShift,
    SuperclassShift,
)
from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig
from coterie.strategies.options import PEER_COUNTS

COUNTS_PEERS = frozenset({"delusional"})
"""Options of strategies that are a number of peers, but not of fetches."""
COUNTS_ROUNDS = frozenset({"exploration_rounds", "confident_rounds", "em_every", "from_round"})
"""Options of strategies that are a number of rounds."""
PER_ROUND_FACTORS = frozenset({"decay"})
"""Options of strategies that are applied as a factor once per round."""
SMALLEST_CLUSTER = 2
"""A peer that is alone in its cluster has no peer to find."""


def check_scale(scale: float) -> None:
    """Raise a ConfigError unless 0 < scale ≤ 1."""
    if not 0 < scale <= 1:
        raise ConfigError(
            f"--scale {scale:g} cannot be used: expected a number above 0 and at most 1, such as "
            "0.1 for a tenth of the rounds and peers."
        )


def scaled_settings(
    preset: RunConfig, wanted: RunConfig, given: Collection[str], scale: float, fewest_fetches: int
) -> dict[str, Any]:
    """Return the changes that scale `wanted`, which is `preset` with the `given` keys changed.

    Given keys stay. If the number of rounds or peers was given, the rest shrinks in proportion to
    it. `fewest_fetches` is the smallest number of fetches of the compared strategies. It is scaled
    and rounded, and the others are scaled by the same factor, so that all communicate equally.
    """
    changes: dict[str, Any] = {}
    rounds, peers = wanted.rounds, wanted.peers.count
    if not is_given("rounds", given):
        rounds = changes["rounds"] = _rounds(wanted, scale, given)
    if not is_given("peers.count", given):
        changes.update(_peers(wanted, scale))
        peers = changes["peers.count"]
    time, size = rounds / max(preset.rounds, 1), peers / preset.peers.count
    changes["test_every"] = _whole(wanted.test_every * time)
    if wanted.patience is not None:
        changes["patience"] = _whole(wanted.patience * time)
    if wanted.poison.kind != "none":
        changes["poison.from_round"] = _whole(wanted.poison.from_round * time)
    if wanted.poison.count:
        changes["poison.count"] = _whole(wanted.poison.count * size)
    if wanted.watch.peers:
        changes["watch.peers"] = sorted({int(peer * size) for peer in wanted.watch.peers})
    if not isinstance(wanted.drift, NoDrift):
        changes["drift.every"] = _whole(wanted.drift.every * time)
    part = _whole(fewest_fetches * size) / fewest_fetches
    options = _options(wanted.strategy_options(), time, size, part)
    most = max(peers - 1, 1)
    changes.update(
        {
            f"strategy.{name}": min(value, most) if name in PEER_COUNTS else value
            for name, value in options.items()
        }
    )
    return {key: value for key, value in changes.items() if not is_given(key, given)}


def is_given(key: str, given: Collection[str]) -> bool:
    """Whether a key was changed: itself, its group, or the kind of its group."""
    group = key.rpartition(".")[0]
    return bool({key, group, f"{group}.kind"} & set(given))


def _whole(value: float) -> int:
    """Round half up, but never to 0."""
    return max(1, math.floor(value + 0.5))


def _rounds(wanted: RunConfig, scale: float, given: Collection[str]) -> int:
    """Return fewer rounds; under drift, the number of steps stays the same."""
    if isinstance(wanted.drift, NoDrift) or is_given("drift.every", given):
        return _whole(wanted.rounds * scale)
    every = wanted.drift.every
    return _whole(wanted.rounds * _whole(every * scale) / every)


def _peers(wanted: RunConfig, scale: float) -> dict[str, Any]:
    """Return fewer peers, each cluster in proportion; under a drift pattern, whole copies of it."""
    peers = wanted.peers
    if isinstance(wanted.drift, MatrixDrift | FedDrift2 | FedDrift4):
        width = len(wanted.drift.rows()[0])
        copies = _whole(peers.count * scale / width)
        return {"peers.count": min(peers.count, copies * width)}
    sizes = np.bincount(
        cluster_of_peers(peers.count, num_clusters(wanted), peers.clusters),
        minlength=num_clusters(wanted),
    )
    fewer = [_cluster_size(size, scale) for size in sizes]
    # Equal clusters need no list of sizes.
    shares = {} if peers.clusters is None else {"peers.clusters": fewer}
    return {"peers.count": sum(fewer), **shares}


def _cluster_size(size: int, scale: float) -> int:
    return min(int(size), max(SMALLEST_CLUSTER, _whole(size * scale)))


def _options(options: dict[str, Any], time: float, size: float, part: float) -> dict[str, Any]:
    """Return the options that depend on rounds (time), peers (size) or fetches (part), scaled."""
    changed: dict[str, Any] = {}
    for name, value in options.items():
        if name in COUNTS_ROUNDS:
            changed[name] = _whole(value * time)
        elif name in PER_ROUND_FACTORS:
            changed[name] = value ** (1 / time) if time else value
        elif name in COUNTS_PEERS:
            changed[name] = _whole(value * size)
        elif name in PEER_COUNTS:
            changed[name] = _whole(value * part)
    if options.get("samples", 0) > options.get("fetches", 0):
        # Samples must be more than the fetches that are chosen from them.
        changed["samples"] = max(changed["samples"], changed["fetches"] + 1)
    return changed


def num_clusters(config: RunConfig) -> int:
    """Return the number of clusters of the shift, without reading data."""
    match config.shift:
        case NoShift():
            return 1
        case RotationShift():
            return len(config.shift.angles)
        case LabelShift() | SuperclassShift():
            return len(config.shift.groups)
        case RandomLabelShift():
            return config.shift.groups
        case LabelSwapShift():
            return len(config.shift.swaps)
        case DatasetShift():
            return len(config.data.datasets)
