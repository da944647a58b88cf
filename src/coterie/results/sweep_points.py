"""The tables of a sweep: what each value of a setting reached; and which is best by validation."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.markup import escape
from rich.table import Table

from coterie.experiments.run_summary import RunSummary
from coterie.results.statistics import confidence

Values: TypeAlias = Mapping[str, str | None]
"""Settings that vary, by their dotted keys; None: the strategy does not have it."""
MISSING = "–"


@dataclass(frozen=True)
class Trial:
    """One run of a sweep; `summary` is None if it has not finished."""

    run: str
    label: str
    seed: int
    values: Values
    summary: RunSummary | None


@dataclass(frozen=True)
class Point:
    """One strategy with one combination of values: the runs of all seeds."""

    label: str
    values: Values
    trials: tuple[Trial, ...]

    @property
    def summaries(self) -> list[RunSummary]:
        """What the finished runs reached."""
        return [trial.summary for trial in self.trials if trial.summary is not None]

    @property
    def is_complete(self) -> bool:
        """Whether all seeds have finished, so that this point can be compared with others."""
        return len(self.summaries) == len(self.trials)

    @property
    def validation(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by validation data."""
        return confidence([each.validation for each in self.summaries])

    @property
    def test(self) -> tuple[float, float]:
        """Mean over seeds and half width of its 95% interval, by test data."""
        return confidence([each.mean for each in self.summaries])


def points(trials: Sequence[Trial]) -> list[Point]:
    """Put the seeds of each strategy and combination together, in order."""
    found: dict[tuple[str, tuple[str | None, ...]], list[Trial]] = {}
    for trial in trials:
        found.setdefault((trial.label, tuple(trial.values.values())), []).append(trial)
    return [Point(same[0].label, same[0].values, tuple(same)) for same in found.values()]


def select(candidates: Sequence[Point]) -> dict[str, Point]:
    """Return the best complete point of each strategy by its validation, never by its test."""
    best: dict[str, Point] = {}
    for point in candidates:
        if not point.is_complete or math.isnan(point.validation[0]):
            continue
        sign = 1.0 if point.summaries[0].is_accuracy else -1.0
        now = best.get(point.label)
        if now is None or sign * point.validation[0] > sign * now.validation[0]:
            best[point.label] = point
    return best


def sweep_table(title: str, key: str, found: Sequence[Point], best: Sequence[Point] = ()) -> Table:
    """Return strategies × values of one setting; other settings that vary get rows of their own."""
    is_accuracy = all(each.is_accuracy for point in found for each in point.summaries)
    measure = "accuracy %" if is_accuracy else "MSE"
    table = Table(
        title=f"{escape(title)}: {measure} against {escape(key)}",
        title_justify="left",
        caption="* best by validation" if best else None,
        caption_justify="left",
    )
    others = [other for other in found[0].values if other != key]
    columns = _columns(key, found)
    for name in ("strategy", *others, "on"):
        table.add_column(escape(name))
    for value in columns:
        table.add_column(escape(MISSING if value is None else value), justify="right")
    for place, row in _rows(key, others, found).items():
        names = [escape(MISSING if name is None else name) for name in place]
        for part in ("validation", "test"):
            cells = [_cell(row.get(value), part, best, is_accuracy) for value in columns]
            table.add_row(*names, part, *cells, end_section=part == "test")
    return table


def csv_text(trials: Sequence[Trial]) -> str:
    """Return one line per run; what has not finished has no numbers."""
    clusters = next((t.summary.cluster_names for t in trials if t.summary is not None), ())
    keys = list(trials[0].values)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    tests = [f"test {name}" for name in clusters]
    numbers = ["validation", "test", *tests, "models_per_peer", "megabytes_per_peer"]
    writer.writerow(["run", "strategy", "seed", *keys, *numbers])
    for trial in trials:
        who = (trial.run, trial.label, trial.seed, *(trial.values[key] or "" for key in keys))
        reached = _numbers(trial.summary) if trial.summary else [""] * len(numbers)
        writer.writerow((*who, *reached))
    return file.getvalue()


def _numbers(outcome: RunSummary) -> Sequence[float | str]:
    traffic = [outcome.models_per_peer, outcome.megabytes_per_peer]
    return [outcome.validation, outcome.mean, *outcome.cluster_means, *traffic]


def _columns(key: str, found: Sequence[Point]) -> list[str | None]:
    """Return the values of a setting in order, and last None if a strategy does not have it."""
    values = dict.fromkeys(point.values[key] for point in found)
    return sorted(values, key=lambda value: value is None)


def _rows(
    key: str, others: Sequence[str], found: Sequence[Point]
) -> dict[tuple[str | None, ...], dict[str | None, Point]]:
    """Return the points by (strategy, values of the other settings), then by this setting's."""
    rows: dict[tuple[str | None, ...], dict[str | None, Point]] = {}
    for label in dict.fromkeys(point.label for point in found):
        for point in found:
            if point.label == label:
                place = (label, *(point.values[other] for other in others))
                rows.setdefault(place, {})[point.values[key]] = point
    return rows


def _cell(point: Point | None, part: str, best: Sequence[Point], is_accuracy: bool) -> str:
    if point is None:
        return ""
    mean, width = point.validation if part == "validation" else point.test
    if math.isnan(mean):
        return MISSING
    scale = 100.0 if is_accuracy else 1.0
    text = f"{mean * scale:.2f}"
    if not math.isnan(width):
        text += f" ± {width * scale:.2f}"
    if not point.is_complete:
        text += f" ({len(point.summaries)} of {len(point.trials)})"
    if point not in best:
        return text
    return f"[bold]{text} *[/]" if part == "validation" else f"[bold]{text}[/]"
