"""Validation before and after each merge, and after training (FRIENDS, figures 4.3 to 4.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from coterie.reports.colours import BLACK, BLUE, VERMILION
from coterie.reports.figures.accuracy import (
    MAX_CLUSTERS,
    keep_in_view,
    known,
    label_left,
    measure_name,
    shift_lines,
)
from coterie.reports.figures.style import legend_above, marked, panels, plain, round_axis
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.merge import merge
from coterie.reports.html.views.view_parts import Json

LINES: dict[str, dict[str, Any]] = {
    "before": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "merged": {"color": VERMILION, "linestyle": "--", "marker": "s"},
    "trained": {"color": BLACK, "linestyle": ":", "marker": "^"},
}
NAMES = {"before": "before the merge", "merged": "after the merge", "trained": "after training"}


def merges(subject: Subject) -> dict[str, Figure]:
    """Return one figure per strategy whose peers merge."""
    data = merge(subject)
    if "missing" in data:
        return {}
    return {
        f"merges-{label}": _figure(data, place)
        for place, label in enumerate(subject.labels)
        if _merges(data["lines"][place][0])
    }


def _merges(curves: list[Json]) -> bool:
    """Whether peers merge at all: somewhere it makes a difference."""
    before, merged = (known(curves[place]["mean"]) for place in (0, 1))
    return len(before) != len(merged) or not np.array_equal(before, merged, equal_nan=True)


def _figure(data: Json, strategy: int) -> Figure:
    clusters = data["clusters"] if 1 < len(data["clusters"]) <= MAX_CLUSTERS else []
    titles = ["all peers", *(plain(cluster["name"]) for cluster in clusters)]
    figure, axes = panels(len(titles), sharey=True)
    lines = data["lines"][strategy]
    for place, (title, each) in enumerate(zip(titles, axes, strict=True)):
        each.set_title(title)
        shift_lines(each, data["shifts"])
        for index, (moment, line) in enumerate(LINES.items()):
            curve = lines[place][data["moments"].index(moment)]
            where = marked(index, len(curve["round"]))
            each.plot(curve["round"], known(curve["mean"]), markevery=where, **line)
        round_axis(each)
    keep_in_view(
        axes, [curve["mean"] for of_cluster in lines for curve in of_cluster], data["measure"]
    )
    label_left(axes, f"validation {measure_name(data)}")
    legend_above(figure, {NAMES[moment]: line for moment, line in LINES.items()})
    return figure
