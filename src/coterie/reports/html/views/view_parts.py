"""Parts that the views share: colours and names, rounded numbers, packed arrays."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.colours import (
    HARMED,
    HELPED,
    PALETTE,
    SEQUENTIAL,
    cluster_colour,
    strategy_colour,
)
from coterie.reports.html.run_groups import RunGroup
from coterie.results.analyses.columns import by_round, columns

P = ParamSpec("P")
T = TypeVar("T")
Json: TypeAlias = dict[str, Any]
Series: TypeAlias = Mapping[int, float]
"""Values by round."""
_DASHES = ("solid", "dash", "dot")
"""The dashes distinguish strategies with the same colour."""
MAX_POINTS = 300
"""Maximum number of rounds in a curve; longer runs show every second, third, … round."""


def make_notice(why: str) -> Json:
    """Return the data of a figure without data: the reason, and what to do."""
    return {"missing": why}


def build_legend(group: RunGroup) -> Json:
    """Return names and colours: the measure, the strategies and the clusters."""
    return {
        "measure": describe_measure(group),
        "strategies": [
            {"label": label, "colour": strategy_colour(n), "dash": _DASHES[n // 8 % len(_DASHES)]}
            for n, label in enumerate(group.labels)
        ],
        "palette": {**PALETTE, "helped": HELPED, "harmed": HARMED, "sequential": SEQUENTIAL},
        "initial_strategy": group.labels.index(group.initial_label),
        "clusters": [
            {"name": name, "colour": cluster_colour(n)}
            for n, name in enumerate(group.cluster_names)
        ],
    }


def describe_measure(group: RunGroup) -> Json:
    """Return how the score is shown: shares in percent, other scores without a unit."""
    score = group.score
    return {
        "name": score.name,
        "unit": score.unit,
        "scale": int(score.scale),
        "digits": 1 if score.is_share else 2,
        "higher_is_better": score.higher_is_better,
    }


def cache_per_run(
    make: Callable[Concatenate[RunFolder, P], T],
) -> Callable[Concatenate[RunFolder, P], T]:
    """Cache a result in the run; the live page asks again even if the run has no new rounds."""

    @wraps(make)
    def cached(run: RunFolder, /, *others: P.args, **named: P.kwargs) -> T:
        key = (make, others)
        if key not in run.cache:
            run.cache[key] = make(run, *others, **named)
        found: T = run.cache[key]
        return found

    return cached


def map_runs(group: RunGroup, make: Any) -> list[Json]:
    """Return the data that `make` returns for each run, with strategy and seed; skip None."""
    found = []
    for index, runs in enumerate(group.runs_by_label.values()):
        for run in sorted(runs, key=lambda run: run.seed):
            made = make(run)
            if made is not None:
                found.append({"strategy": index, "seed": run.seed, **made})
    return found


def summarise_seeds(seeds: Sequence[Series], scale: float = 1.0) -> Json:
    """Return mean, minimum and maximum over seeds, for each round with any known value."""
    rounds = thin_rounds(sorted({number for series in seeds for number in series}))
    table = np.array([[series.get(number, math.nan) for number in rounds] for series in seeds])
    table = table.reshape(len(seeds), len(rounds)) * scale
    is_known: npt.NDArray[np.bool_] = np.asarray(~np.isnan(table).all(axis=0))
    kept = table[:, is_known]
    return {
        "round": [number for number, known in zip(rounds, is_known, strict=True) if known],
        "mean": shorten_numbers(np.nanmean(kept, axis=0)) if kept.size else [],
        "low": shorten_numbers(np.nanmin(kept, axis=0)) if kept.size else [],
        "high": shorten_numbers(np.nanmax(kept, axis=0)) if kept.size else [],
        "num_seeds": len(seeds),
    }


def thin_rounds(rounds: Sequence[int]) -> list[int]:
    """Return at most about MAX_POINTS of the rounds, including the last."""
    step = max(1, math.ceil(len(rounds) / MAX_POINTS))
    return list(rounds[::-1][::step][::-1])


def find_shifts(group: RunGroup) -> list[int]:
    """Return the rounds in which the data change: the first of each step of a drift but step 0."""
    found: set[int] = set()
    for run in group.runs:
        metrics = columns(run.table("metrics"), "round", "step")
        steps = [(int(rows["step"][0]), number) for number, rows in by_round(metrics)]
        found |= {number for (before, _), (step, number) in pairwise(steps) if step != before}
    return sorted(found)


def shorten_numbers(values: npt.ArrayLike, digits: int = 5) -> list[float | None]:
    """Return values rounded to significant digits; None if not finite."""
    return [shorten_number(value, digits) for value in np.asarray(values, dtype=float).ravel()]


def shorten_number(value: float, digits: int = 5) -> float | None:
    """Return a value rounded to significant digits, as an int if possible; None if not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def pack_array(values: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> Json:
    """Return an array as type, shape and base64 of its little-endian bytes."""
    little = values.astype(values.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode()
    return {"type": values.dtype.name, "shape": list(values.shape), "base64": text}


def build_pictures(group: RunGroup, make: Any, notice: str) -> Json:
    """Return one picture per strategy and seed, and the strategies without any; or the notice."""
    runs = map_runs(group, make)
    if not runs:
        return make_notice(notice)
    shown = {run["strategy"] for run in runs}
    without = [label for n, label in enumerate(group.labels) if n not in shown]
    return {**build_legend(group), "runs": runs, "without": without}
