"""What all views are made of: who is shown in which colour, rounded numbers, packed arrays."""

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
from coterie.reports.html.subjects import Subject, in_order
from coterie.results.analyses.columns import by_round, columns

P = ParamSpec("P")
T = TypeVar("T")
Json: TypeAlias = dict[str, Any]
Series: TypeAlias = Mapping[int, float]
"""Values by their round."""
_DASHES = ("solid", "dash", "dot")
"""Of strategies whose colours repeat."""
MAX_POINTS = 300
"""How many rounds a curve shows at most; of longer runs it shows every second, third, …"""


def missing(why: str) -> Json:
    """Return what a figure shows that has nothing to show: why, and what to do."""
    return {"missing": why}


def legend(subject: Subject) -> Json:
    """Return what most figures need to name things: measure, strategies, clusters, all coloured."""
    return {
        "measure": measure(subject),
        "strategies": [
            {"label": label, "colour": strategy_colour(n), "dash": _DASHES[n // 8 % len(_DASHES)]}
            for n, label in enumerate(subject.labels)
        ],
        "palette": {**PALETTE, "helped": HELPED, "harmed": HARMED, "sequential": SEQUENTIAL},
        "favourite": subject.labels.index(subject.favourite),
        "clusters": [
            {"name": name, "colour": cluster_colour(n)}
            for n, name in enumerate(subject.cluster_names)
        ],
    }


def measure(subject: Subject) -> Json:
    """Return how results are written: accuracies in percent, squared errors as they are."""
    if subject.is_accuracy:
        return {
            "name": "accuracy",
            "unit": "%",
            "scale": 100,
            "digits": 1,
            "higher_is_better": True,
        }
    return {"name": "error (MSE)", "unit": "", "scale": 1, "digits": 2, "higher_is_better": False}


def once_per_run(
    make: Callable[Concatenate[RunFolder, P], T],
) -> Callable[Concatenate[RunFolder, P], T]:
    """Let a run keep what was made of it: a live view asks again, also for runs without news."""

    @wraps(make)
    def kept(run: RunFolder, /, *others: P.args, **named: P.kwargs) -> T:
        key = (make, others)
        if key not in run.cache:
            run.cache[key] = make(run, *others, **named)
        found: T = run.cache[key]
        return found

    return kept


def each_run(subject: Subject, make: Any) -> list[Json]:
    """Return what `make` makes of each run, with strategy and seed; None: it has nothing."""
    found = []
    for run in in_order(subject.labels, subject.runs):
        made = make(run)
        if made is not None:
            place = subject.labels.index(run.label)
            found.append({"strategy": place, "seed": run.seed, **made})
    return found


def over_seeds(seeds: Sequence[Series], scale: float = 1.0) -> Json:
    """Return mean, lowest and highest of several seeds, round by round; null where unknown."""
    rounds = thinned(sorted({number for series in seeds for number in series}))
    table = np.array([[series.get(number, math.nan) for number in rounds] for series in seeds])
    table = table.reshape(len(seeds), len(rounds)) * scale
    some: npt.NDArray[np.bool_] = np.asarray(~np.isnan(table).all(axis=0))
    kept = table[:, some]
    return {
        "round": [number for number, known in zip(rounds, some, strict=True) if known],
        "mean": numbers(np.nanmean(kept, axis=0)) if kept.size else [],
        "low": numbers(np.nanmin(kept, axis=0)) if kept.size else [],
        "high": numbers(np.nanmax(kept, axis=0)) if kept.size else [],
        "num_seeds": len(seeds),
    }


def thinned(rounds: Sequence[int]) -> list[int]:
    """Return at most about MAX_POINTS of the rounds, the last one always among them."""
    step = max(1, math.ceil(len(rounds) / MAX_POINTS))
    return list(rounds[::-1][::step][::-1])


def shifts(subject: Subject) -> list[int]:
    """Return the first round of every step of a drift but the first."""
    found: set[int] = set()
    for run in subject.runs:
        steps = columns(run.table("metrics"), "round", "step")
        numbers_of = [(int(rows["step"][0]), number) for number, rows in by_round(steps)]
        found |= {now for (before, _), (step, now) in pairwise(numbers_of) if step != before}
    return sorted(found)


def numbers(values: npt.ArrayLike, digits: int = 5) -> list[float | None]:
    """Return values rounded to significant digits; what is not finite is null."""
    return [number(value, digits) for value in np.asarray(values, dtype=float).ravel()]


def number(value: float, digits: int = 5) -> float | None:
    """Return a value rounded to significant digits, as a whole number where it is one."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def packed(values: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> Json:
    """Return an array as base64 of its bytes, little end first, with shape and type."""
    little = values.astype(values.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode()
    return {"type": values.dtype.name, "shape": list(values.shape), "base64": text}


def shown_runs(subject: Subject, make: Any, nothing: str) -> Json:
    """Return what `make` makes of each run, and which strategies have none; or why there is none.

    What most figures of single runs are: one picture for each strategy and seed.
    """
    runs = each_run(subject, make)
    if not runs:
        return missing(nothing)
    there = {run["strategy"] for run in runs}
    without = [label for n, label in enumerate(subject.labels) if n not in there]
    return {**legend(subject), "runs": runs, "without": without}
