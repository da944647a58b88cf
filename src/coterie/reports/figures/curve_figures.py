"""Results over rounds (as in HAST) and against communication, with ranges over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from coterie.reports.figures.style import (
    COLUMN,
    add_legend,
    clean_name,
    format_round_axis,
    marker_places,
    new_figure,
    new_panels,
    strategy_line,
)
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.curves_view import build_curves
from coterie.reports.html.views.frontier_view import build_frontier
from coterie.reports.html.views.view_parts import Json

MAX_CLUSTERS = 7
"""With more clusters only the mean over all peers is drawn; panels would be too small."""
LOGARITHMIC = 30.0
"""From this ratio of the highest to the lowest error on, the axis is logarithmic."""


def draw_curves(group: RunGroup) -> dict[str, Figure]:
    """Return a figure of validation and one of test results, if they have at least two rounds."""
    data = build_curves(group)
    return {
        f"curves-{split}": _figure(data, split)
        for split, strategies in data["curves"].items()
        if any(len(each[0]["round"]) > 1 for each in strategies)
    }


def _figure(data: Json, split: str) -> Figure:
    clusters = data["clusters"] if 1 < len(data["clusters"]) <= MAX_CLUSTERS else []
    titles = ["all peers", *(clean_name(cluster["name"]) for cluster in clusters)]
    figure, axes = new_panels(len(titles), sharey=True)
    for place, (title, each) in enumerate(zip(titles, axes, strict=True)):
        each.set_title(title)
        draw_shifts(each, data["shifts"])
        for index, curves in enumerate(data["curves"][split]):
            draw_curve(each, curves[place], index)
        format_round_axis(each)
    label_first_column(axes, f"{split} {name_measure(data)}")
    scale_errors(
        axes, [one["mean"] for each in data["curves"][split] for one in each], data["measure"]
    )
    add_legend(
        figure,
        {clean_name(one["label"]): strategy_line(n) for n, one in enumerate(data["strategies"])},
    )
    return figure


def draw_communication(group: RunGroup) -> dict[str, Figure]:
    """Return one figure: the path of each strategy, and its final result with its 95% interval."""
    data = build_frontier(group)
    if "missing" in data:
        return {}
    figure = new_figure(COLUMN, 2.5)
    axes = figure.subplots()
    entries = {}
    for index, path in enumerate(data["paths"]):
        if not path["round"]:
            continue
        line = strategy_line(index)
        models, level = fill_unknown(path["models"]), fill_unknown(path["level"])
        if models[-1] > 0:
            axes.plot(models, level, markevery=marker_places(index, len(models)), **line)
        else:  # no cost: a horizontal line
            axes.axhline(level[-1], **{**line, "marker": "none"})
        width = path["width"][-1]
        if width is not None:
            axes.errorbar(
                models[-1], level[-1], yerr=width, color=line["color"], capsize=2, linewidth=0.8
            )
        entries[clean_name(data["strategies"][index]["label"])] = line
    scale_errors([axes], [path["level"] for path in data["paths"]], data["measure"])
    axes.set_xlabel("models sent and received per peer")
    axes.set_ylabel(f"test {name_measure(data)}")
    add_legend(figure, entries)
    return {"communication-and-results": figure}


def draw_curve(axes: Axes, curve: Json, index: int) -> None:
    """Draw the mean of a strategy over rounds and the range of its seeds."""
    rounds = curve["round"]
    line = strategy_line(index)
    if curve["num_seeds"] > 1:
        low, high = (fill_unknown(curve[side]) for side in ("low", "high"))
        axes.fill_between(rounds, low, high, color=line["color"], alpha=0.18, linewidth=0)
    axes.plot(
        rounds, fill_unknown(curve["mean"]), markevery=marker_places(index, len(rounds)), **line
    )


def draw_shifts(axes: Axes, shifts: Sequence[int]) -> None:
    """Draw a line at each round in which the data changed."""
    for number in shifts:
        axes.axvline(number - 0.5, color="#777777", linewidth=0.6, linestyle=(0, (2, 2)), zorder=1)


def label_first_column(axes: Sequence[Axes], text: str) -> None:
    """Label the vertical axis of the panels on the left."""
    for each in axes:
        place = each.get_subplotspec()
        if place is None or place.is_first_col():
            each.set_ylabel(text)


def scale_errors(
    axes: Sequence[Axes], curves: Sequence[Sequence[float | None]], measure: Json
) -> None:
    """Use a logarithmic axis for errors of very different sizes."""
    values = np.concatenate([fill_unknown(curve) for curve in curves])
    values = values[np.isfinite(values)]
    if not len(values) or measure["higher_is_better"]:
        return
    if values.min() > 0 and values.max() / values.min() > LOGARITHMIC:
        for each in axes:
            each.set_yscale("log")
            each.yaxis.set_major_locator(LogLocator(numticks=6))
            each.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
            each.yaxis.set_minor_formatter(NullFormatter())


def name_measure(data: Json) -> str:
    """Return the name of the measure with its unit."""
    measure = data["measure"]
    return f"{measure['name']} ({measure['unit']})" if measure["unit"] else str(measure["name"])


def fill_unknown(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    """Return values as an array, with NaN for unknown values."""
    return np.array(values, dtype=float)
