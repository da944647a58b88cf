"""Test results against the values of a setting, such as the temperature τ."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from coterie.experiments.experiment import Experiment
from coterie.reports.figures.style import COLUMN, add_legend, clean_name, new_figure, strategy_line
from coterie.results.sweep_points import (
    SweepPoint,
    common_score,
    group_by_values,
    read_sweep_runs,
)

LOGARITHMIC = 20.0
"""From this ratio of the highest to the lowest value on, the axis is logarithmic."""


def draw_sweeps(experiment: Experiment) -> dict[str, Figure]:
    """Return a figure for each setting that varies, from the finished runs."""
    if experiment.grid is None:
        return {}
    all_points = [
        point for point in group_by_values(read_sweep_runs(experiment)) if point.summaries
    ]
    drawn = {}
    for key in experiment.grid.varied:
        if len({point.values[key] for point in all_points} - {None}) > 1:
            drawn[f"sweep-{key}"] = _figure(key, all_points)
    return drawn


def _figure(key: str, all_points: Sequence[SweepPoint]) -> Figure:
    figure = new_figure(COLUMN, 2.5)
    axes = figure.subplots()
    values = list(dict.fromkeys(p.values[key] for p in all_points if p.values[key] is not None))
    numbers = [_number(value) for value in values]
    at = dict(zip(values, _places(numbers), strict=True))
    score = common_score(all_points)
    scale = score.scale
    entries = {}
    for index, (name, mine) in enumerate(_lines(key, all_points).items()):
        line = strategy_line(index)
        entries[clean_name(name)] = line
        tests = [(at.get(point.values[key]), *point.test) for point in mine]
        placed = sorted((x, y * scale, w * scale) for x, y, w in tests if x is not None)
        if placed:
            at_value, level, width = zip(*placed, strict=True)
            axes.errorbar(at_value, level, yerr=width, capsize=2, elinewidth=0.7, **line)
        for _, y, _ in (test for test in tests if test[0] is None):  # without this setting
            axes.axhline(y * scale, **{**line, "marker": "none"})
    _axis(axes, at, numbers)
    axes.set_xlabel(clean_name(_title(key)))
    axes.set_ylabel(f"test {score.name}{' (%)' if score.is_share else ''}")
    add_legend(figure, entries)
    return figure


def _lines(key: str, all_points: Sequence[SweepPoint]) -> dict[str, list[SweepPoint]]:
    """Return the points of each strategy and combination of the other settings."""
    lines: dict[str, list[SweepPoint]] = {}
    for point in all_points:
        others = {k: v for k, v in point.values.items() if k != key and v is not None}
        name = " ".join([point.label, *(f"{k.rpartition('.')[2]}={v}" for k, v in others.items())])
        lines.setdefault(name, []).append(point)
    return lines


def _title(key: str) -> str:
    """Return the name of a setting; "temperature τ" for tau, as in the papers."""
    name = key.rpartition(".")[2]
    return "temperature τ" if name == "tau" else name.replace("_", " ")


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _places(numbers: Sequence[float | None]) -> list[float]:
    """Return positions on the axis: the numbers, or 0, 1, … if some values are not numbers."""
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else [float(n) for n in range(len(numbers))]


def _axis(axes: Axes, at: dict[str | None, float], numbers: Sequence[float | None]) -> None:
    """Label each value on the axis, which is logarithmic for values of very different sizes."""
    places = sorted(at.values())
    if None not in numbers and places[0] > 0 and places[-1] / places[0] >= LOGARITHMIC:
        axes.set_xscale("log")
    names = {place: clean_name(str(value)) for value, place in at.items()}
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FixedFormatter([names[place] for place in places]))
    axes.xaxis.set_minor_locator(NullLocator())
