"""How much the score drops at a shift, and how fast peers recover."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.results.analyses.columns import (
    ALL,
    CLUSTER,
    CLUSTER_NAME,
    by_cluster,
    by_round,
    columns,
    mean,
    means_of,
    of_all_peers,
)
from coterie.runtime.round import Columns
from coterie.tasks import TaskScore

SHARES = (0.95, 1.0)
"""The shares of the level before the shift that are to be regained."""
TIMES = tuple(f"rounds_to_{share:.0%}".rstrip("%") for share in SHARES)
ABOUT = ("step", "first_round", "round", CLUSTER, CLUSTER_NAME, "measure")
"""The columns that identify a row."""
Levels = dict[int, float]
"""The mean level of some peers, by round."""


def recovery(metrics: pa.Table, window: int, score: TaskScore) -> pa.Table:
    """Per step of the drift and cluster: the drop at the shift and the rounds to recover.

    The level is the mean validation score after training, of all peers or of a cluster. Before a
    shift it is the mean over `window` rounds. If no round of the step regains it, the value is NaN.
    The first step has no shift before it.
    """
    after, at_start, rounds = _levels(metrics)
    if len(rounds) < 2:
        return pa.Table.from_pylist([])
    sign = score.sign
    rows = []
    for step, numbers in rounds.items():
        previous = rounds.get(step - 1, [])[-window:]
        for cluster, levels in after.items():
            here = {number: levels[number] for number in numbers if number in levels}
            if not here:
                continue
            before = mean([levels[number] for number in previous if number in levels])
            times = [rounds_until(here, before, share, sign) for share in SHARES]
            rows.append(
                {
                    "step": step,
                    "first_round": numbers[0],
                    "round": numbers[-1],
                    "cluster": cluster,
                    "measure": score.name,
                    "level_before": before,
                    "drop": sign * (before - at_start[cluster].get(numbers[0], math.nan)),
                    "drop_after_round": sign * (before - here.get(numbers[0], math.nan)),
                    **dict(zip(TIMES, times, strict=True)),
                    "mean_level": mean(list(here.values())),
                }
            )
    return pa.Table.from_pylist(rows)


def rounds_until(levels: Levels, before: float, share: float, sign: float) -> float:
    """Return the number of rounds of a step until a share of `before` is regained; or NaN.

    1 is the first round on the new data. An error is regained at before / share.
    """
    goal = before * share if sign > 0 else before / share
    first = min(levels)
    for number, level in levels.items():
        if sign * level >= sign * goal:
            return float(number - first + 1)
    return math.nan


def recovery_per_shift(detail: pa.Table, window: int) -> pa.Table:
    """All peers, per shift and as the mean over shifts; the mean level is over all rounds."""
    every = of_all_peers(detail)
    names = ("level_before", "drop", "drop_after_round", *TIMES)
    shifts = every.filter(pc.greater(every["step"], 0))
    rows = [
        {"shift": str(row["step"]), **{name: row[name] for name in row if name not in ABOUT}}
        for row in shifts.to_pylist()
    ]
    spans = columns(every, "first_round", "round", "mean_level")
    lengths = spans["round"] - spans["first_round"] + 1
    over_time = float(np.average(spans["mean_level"], weights=lengths))
    # The mean has the communication until the end of the last step.
    rows.append({**rows[-1], "shift": ALL, **means_of(shifts, names), "mean_level": over_time})
    return pa.Table.from_pylist(rows)


def _levels(
    metrics: pa.Table,
) -> tuple[dict[str, Levels], dict[str, Levels], dict[int, list[int]]]:
    """Return levels after training and before merging, by cluster, and the rounds of each step."""
    trained, before = (f"validation_score_{moment}" for moment in ("trained", "before"))
    after: dict[str, Levels] = {}
    at_start: dict[str, Levels] = {}
    rounds: dict[int, list[int]] = {}
    for number, peers in by_round(columns(metrics, "round", "step", "cluster", trained, before)):
        if number == 0:
            continue
        rounds.setdefault(int(peers["step"][0]), []).append(number)
        now = _latest(peers, trained, before)
        for name, members in by_cluster(peers["cluster"]):
            after.setdefault(name, {})[number] = mean(now[members])
            at_start.setdefault(name, {})[number] = mean(peers[before][members])
    return after, at_start, rounds


def _latest(peers: Columns, trained: str, before: str) -> npt.NDArray[np.float64]:
    """Return each peer's level; a peer that did not train keeps its old level."""
    return np.where(np.isnan(peers[trained]), peers[before], peers[trained])
