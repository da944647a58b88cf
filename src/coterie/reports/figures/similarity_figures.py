"""The true similarity of a watched peer to all others over rounds (FRIENDS, 4.3 to 4.5)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.reports.figures.curve_figures import draw_shifts, fill_unknown
from coterie.reports.figures.style import (
    add_legend,
    clean_name,
    cluster_line,
    format_round_axis,
    new_panels,
)
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.similarity_view import build_similarity
from coterie.reports.html.views.view_parts import Json, find_shifts


def draw_similarities(group: RunGroup) -> dict[str, Figure]:
    """Return a figure for each strategy and watched peer of the first seed; a panel per metric."""
    first = RunGroup(tuple(runs[0] for runs in group.runs_by_label.values()))
    data = build_similarity(first)
    if "missing" in data:
        return {}
    drawn = {}
    for run in data["runs"]:
        label = data["strategies"][run["strategy"]]["label"]
        for peer in dict.fromkeys(each["peer"] for each in run["watched"]):
            mine = [each for each in run["watched"] if each["peer"] == peer]
            drawn[f"similarity-{label}-peer{peer}"] = _figure(mine, data, find_shifts(group))
    return drawn


def _figure(watched: list[Json], data: Json, changes: list[int]) -> Figure:
    figure, axes = new_panels(len(watched), per_row=4)
    shown: set[int] = set()
    for each, one in zip(axes, watched, strict=True):
        each.set_title(clean_name(one["metric"]))
        draw_shifts(each, changes)
        shown |= _draw(each, one)
        format_round_axis(each)
    axes[0].set_ylabel("similarity")
    own = watched[0]["own"][-1]
    add_legend(
        figure,
        {
            clean_name(data["clusters"][number]["name"])
            + (" (its own)" if number == own else ""): {
                **cluster_line(number),
                "linestyle": "-" if number == own else "--",
            }
            for number in sorted(shown)
        },
    )
    return figure


def _draw(axes: Axes, one: Json) -> set[int]:
    """Draw a thin line for each other peer and a thick line for the mean of each cluster."""
    values = np.array([fill_unknown(each) for each in one["values"]])
    clusters = _clusters(one, values.shape)
    rounds = np.array(one["rounds"])
    own = one["own"][-1]
    for line, line_clusters in zip(values, clusters, strict=True):
        colour = cluster_line(int(line_clusters[-1]))["color"]
        axes.plot(rounds, line, color=colour, linewidth=0.3, alpha=0.3)
    for cluster in np.unique(clusters):
        mine = np.where(clusters == cluster, values, np.nan)
        is_known = ~np.isnan(mine).all(axis=0)
        axes.plot(
            rounds[is_known],
            np.nanmean(mine[:, is_known], axis=0),
            linestyle="-" if cluster == own else "--",
            markevery=max(1, int(is_known.sum()) // 5),
            **cluster_line(int(cluster)),
        )
    return {int(cluster) for cluster in np.unique(clusters)}


def _clusters(one: Json, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the cluster of each other peer in each round, (N, T)."""
    clusters = np.zeros(shape, dtype=np.int64)
    for row, changes in zip(clusters, one["clusters"], strict=True):
        for place, cluster in changes:
            row[place:] = cluster
    return clusters
