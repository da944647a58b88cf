"""Validation before and after each merge, and after training (FRIENDS, figures 4.3 to 4.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from coterie.reports.colours import BLACK, BLUE, VERMILION
from coterie.reports.figures.curve_figures import (
    MAX_CLUSTERS,
    draw_shifts,
    fill_unknown,
    label_first_column,
    name_measure,
    scale_errors,
)
from coterie.reports.figures.style import (
    add_legend,
    clean_name,
    format_round_axis,
    marker_places,
    new_panels,
)
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.merge_view import build_merge
from coterie.reports.html.views.view_parts import Json

LINES: dict[str, dict[str, Any]] = {
    "before": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "merged": {"color": VERMILION, "linestyle": "--", "marker": "s"},
    "trained": {"color": BLACK, "linestyle": ":", "marker": "^"},
}
NAMES = {"before": "before the merge", "merged": "after the merge", "trained": "after training"}


def draw_merges(group: RunGroup) -> dict[str, Figure]:
    """Return a figure for each strategy whose peers merge."""
    data = build_merge(group)
    if "missing" in data:
        return {}
    return {
        f"merges-{label}": _figure(data, place)
        for place, label in enumerate(group.labels)
        if _has_merges(data["lines"][place][0])
    }


def _has_merges(curves: list[Json]) -> bool:
    """Whether merging changes a result in any round."""
    before, merged = (fill_unknown(curves[place]["mean"]) for place in (0, 1))
    return len(before) != len(merged) or not np.array_equal(before, merged, equal_nan=True)


def _figure(data: Json, strategy: int) -> Figure:
    clusters = data["clusters"] if 1 < len(data["clusters"]) <= MAX_CLUSTERS else []
    titles = ["all peers", *(clean_name(cluster["name"]) for cluster in clusters)]
    figure, axes = new_panels(len(titles), sharey=True)
    lines = data["lines"][strategy]
    for place, (title, each) in enumerate(zip(titles, axes, strict=True)):
        each.set_title(title)
        draw_shifts(each, data["shifts"])
        for index, (moment, line) in enumerate(LINES.items()):
            curve = lines[place][data["moments"].index(moment)]
            where = marker_places(index, len(curve["round"]))
            each.plot(curve["round"], fill_unknown(curve["mean"]), markevery=where, **line)
        format_round_axis(each)
    scale_errors(
        axes, [curve["mean"] for of_cluster in lines for curve in of_cluster], data["measure"]
    )
    label_first_column(axes, f"validation {name_measure(data)}")
    add_legend(figure, {NAMES[moment]: line for moment, line in LINES.items()})
    return figure
