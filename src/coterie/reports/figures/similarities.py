"""The true similarity of a watched peer to all others, round by round (FRIENDS, 4.3 to 4.5)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.reports.figures.accuracy import known, shift_lines
from coterie.reports.figures.style import cluster_line, legend_above, panels, plain, round_axis
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.similarity import similarity
from coterie.reports.html.views.view_parts import Json, shifts


def similarities(subject: Subject) -> dict[str, Figure]:
    """Return one figure per strategy and watched peer, of its first seed: a panel per metric."""
    first = Subject(tuple(runs[0] for runs in subject.by_label.values()))
    data = similarity(first)
    if "missing" in data:
        return {}
    drawn = {}
    for run in data["runs"]:
        label = data["strategies"][run["strategy"]]["label"]
        for peer in dict.fromkeys(each["peer"] for each in run["watched"]):
            mine = [each for each in run["watched"] if each["peer"] == peer]
            drawn[f"similarity-{label}-peer{peer}"] = _figure(mine, data, shifts(subject))
    return drawn


def _figure(watched: list[Json], data: Json, changes: list[int]) -> Figure:
    figure, axes = panels(len(watched), per_row=4)
    there: set[int] = set()
    for each, one in zip(axes, watched, strict=True):
        each.set_title(plain(one["metric"]))
        shift_lines(each, changes)
        there |= _draw(each, one)
        round_axis(each)
    axes[0].set_ylabel("similarity")
    own = watched[0]["own"][-1]
    legend_above(
        figure,
        {
            plain(data["clusters"][number]["name"]) + (" (its own)" if number == own else ""): {
                **cluster_line(number),
                "linestyle": "-" if number == own else "--",
            }
            for number in sorted(there)
        },
    )
    return figure


def _draw(axes: Axes, one: Json) -> set[int]:
    """Draw a thin line to each other peer and a thick one to the mean of each cluster."""
    values = np.array([known(each) for each in one["values"]])
    clusters = _clusters(one, values.shape)
    rounds = np.array(one["rounds"])
    own = one["own"][-1]
    for line, of_line in zip(values, clusters, strict=True):
        colour = cluster_line(int(of_line[-1]))["color"]
        axes.plot(rounds, line, color=colour, linewidth=0.3, alpha=0.3)
    for cluster in np.unique(clusters):
        mine = np.where(clusters == cluster, values, np.nan)
        there = ~np.isnan(mine).all(axis=0)
        axes.plot(
            rounds[there],
            np.nanmean(mine[:, there], axis=0),
            linestyle="-" if cluster == own else "--",
            markevery=max(1, int(there.sum()) // 5),
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
