"""Joins the results of a round of all shards to those of the whole run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.runtime.exchange_log import ExchangeLog
from coterie.runtime.round import Columns, Round
from coterie.strategies.strategy import GroundTruth


def join_rounds(parts: Sequence[Round], truth: GroundTruth | None, watched: Sequence[int]) -> Round:
    """Return a round of all peers, as one process would have made it.

    Parameters
    ----------
    parts
        The rounds of the shards, in the order of peers.
    truth
        The true clusters of the round.
    watched
        The watched peers, in the order of the settings.
    """
    first = parts[0]

    def joined(of: Callable[[Round], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate([of(part) for part in parts])

    whole = Round(
        number=first.number,
        step=first.step,
        online=joined(lambda part: part.online),
        stopped=joined(lambda part: part.stopped),
        reachable=first.reachable,
        truth=truth,
        exchanges=ExchangeLog.joined([part.exchanges for part in parts]),
        similarities=_in_order(_join_columns([part.similarities for part in parts]), watched),
        chosen=[each for part in parts for each in part.chosen],
        estimates=_join_columns([part.estimates for part in parts]),
    )
    whole.merged = joined(lambda part: part.merged)
    whole.poisoned = joined(lambda part: part.poisoned)
    for name in whole.measures:
        whole.measures[name] = np.concatenate([part.measures[name] for part in parts])
    whole.metrics = {
        name: np.concatenate([part.metrics[name] for part in parts]) for name in first.metrics
    }
    return whole


def _join_columns(parts: Sequence[Columns]) -> Columns:
    filled = [part for part in parts if part]
    if not filled:
        return {}
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}


def _in_order(columns: Columns, peers: Sequence[int]) -> Columns:
    """Return rows in the order of a list of peers."""
    if not columns:
        return {}
    places = {peer: place for place, peer in enumerate(peers)}
    order = np.argsort([places[peer] for peer in columns["peer"].tolist()], kind="stable")
    return {name: values[order] for name, values in columns.items()}
