"""Results over rounds, per cluster, with ranges over seeds and lines at shifts (HAST's figures)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from coterie.reports.figures.style import (
    legend_above,
    marked,
    panels,
    plain,
    round_axis,
    strategy_line,
)
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.curves import curves
from coterie.reports.html.views.view_parts import Json

MAX_CLUSTERS = 7
"""Of more clusters only all peers together are drawn: nobody could read that many panels."""
LOGARITHMIC = 30.0
"""From which ratio of the highest to the lowest error on the axis counts powers."""


def accuracy(subject: Subject) -> dict[str, Figure]:
    """Return one figure of validation and one of test results, as far as there are any."""
    data = curves(subject)
    return {
        f"curves-{kind}": _figure(data, kind)
        for kind, of_strategies in data["curves"].items()
        if any(len(each[0]["round"]) > 1 for each in of_strategies)
    }


def _figure(data: Json, kind: str) -> Figure:
    clusters = data["clusters"] if 1 < len(data["clusters"]) <= MAX_CLUSTERS else []
    titles = ["all peers", *(plain(cluster["name"]) for cluster in clusters)]
    figure, axes = panels(len(titles), sharey=True)
    for place, (title, each) in enumerate(zip(titles, axes, strict=True)):
        each.set_title(title)
        shift_lines(each, data["shifts"])
        for index, of_strategy in enumerate(data["curves"][kind]):
            draw_curve(each, of_strategy[place], index)
        round_axis(each)
    label_left(axes, f"{kind} {measure_name(data)}")
    keep_in_view(
        axes, [one["mean"] for each in data["curves"][kind] for one in each], data["measure"]
    )
    legend_above(
        figure,
        {plain(one["label"]): strategy_line(n) for n, one in enumerate(data["strategies"])},
    )
    return figure


def draw_curve(axes: Axes, curve: Json, index: int) -> None:
    """Draw the mean of a strategy over rounds, and the range of its seeds."""
    rounds = curve["round"]
    line = strategy_line(index)
    if curve["num_seeds"] > 1:
        low, high = (known(curve[side]) for side in ("low", "high"))
        axes.fill_between(rounds, low, high, color=line["color"], alpha=0.18, linewidth=0)
    axes.plot(rounds, known(curve["mean"]), markevery=marked(index, len(rounds)), **line)


def shift_lines(axes: Axes, shifts: Sequence[int]) -> None:
    """Draw where the data changed."""
    for number in shifts:
        axes.axvline(number - 0.5, color="#777777", linewidth=0.6, linestyle=(0, (2, 2)), zorder=1)


def label_left(axes: Sequence[Axes], text: str) -> None:
    """Name the vertical axis where it begins: at the panels on the left."""
    for each in axes:
        place = each.get_subplotspec()
        if place is None or place.is_first_col():
            each.set_ylabel(text)


def keep_in_view(
    axes: Sequence[Axes], curves: Sequence[Sequence[float | None]], measure: Json
) -> None:
    """Show errors of very different sizes by powers of ten, so that none is pressed flat."""
    values = np.concatenate([known(curve) for curve in curves])
    values = values[np.isfinite(values)]
    if not len(values) or measure["higher_is_better"]:
        return
    if values.min() > 0 and values.max() / values.min() > LOGARITHMIC:
        for each in axes:
            each.set_yscale("log")
            each.yaxis.set_major_locator(LogLocator(numticks=6))
            each.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
            each.yaxis.set_minor_formatter(NullFormatter())


def measure_name(data: Json) -> str:
    """Return what is measured and its unit."""
    measure = data["measure"]
    return f"{measure['name']} ({measure['unit']})" if measure["unit"] else str(measure["name"])


def known(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    """Return values as an array; what is unknown is NaN."""
    return np.array(values, dtype=float)
