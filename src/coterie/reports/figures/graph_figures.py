"""The collaboration graph at several times, with the preferences of peers (DAC, figure 1)."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from coterie.reports.figures.style import PAGE, add_legend, clean_name, cluster_line, new_figure
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.graph_view import build_graph
from coterie.reports.html.views.view_parts import Json

NUM_TIMES = 4
MIN_STRENGTH = 0.1
"""Edges weaker than this share of the strongest are not drawn."""


def draw_graphs(group: RunGroup) -> dict[str, Figure]:
    """Return a figure for the first seed of each strategy that exchanges models."""
    first = RunGroup(tuple(runs[0] for runs in group.runs_by_label.values()))
    data = build_graph(first)
    if "missing" in data:
        return {}
    return {
        f"graph-{data['strategies'][run['strategy']]['label']}": _figure(run, data)
        for run in data["runs"]
    }


def _figure(run: Json, data: Json) -> Figure:
    windows = run["windows"]
    shown = np.unique(np.linspace(0, len(windows) - 1, min(NUM_TIMES, len(windows))).round())
    width = PAGE * max(len(shown), 2) / NUM_TIMES
    figure = new_figure(width, width / max(len(shown), 2) + 0.55)
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    drawn: set[int] = set()
    for each, place in zip(axes, shown.astype(int).tolist(), strict=True):
        clusters = run["bins"][str(windows[place][0])]["clusters"]
        drawn |= set(clusters)
        _draw(each, run, place, clusters)
        _, start, end = windows[place]
        each.set_title(f"round {end}" if start == end else f"rounds {start}–{end}")
    add_legend(
        figure,
        {
            clean_name(data["clusters"][number]["name"]): cluster_line(number)
            | {"linestyle": "none", "markersize": 5}
            for number in sorted(drawn)
        },
    )
    return figure


def _draw(axes: Axes, run: Json, place: int, clusters: Sequence[int]) -> None:
    count = len(clusters)
    places, targets, strengths = (
        unpack_array(run[name])[place][:count] for name in ("places", "targets", "strengths")
    )
    # The root makes weak preferences visible; before groups have formed, all are weak.
    strength = np.sqrt(strengths / 255.0)
    strong = strength >= MIN_STRENGTH
    starts = places[np.nonzero(strong)[0]]
    ends = places[targets[strong]]
    order = np.argsort(strength[strong], kind="stable")
    edges = LineCollection(
        list(np.stack([starts, ends], axis=1)[order]),
        linewidths=0.2 + 0.9 * strength[strong][order],
        colors=[(0.3, 0.3, 0.3, float(0.1 + 0.5 * each)) for each in strength[strong][order]],
        zorder=1,
    )
    axes.add_collection(edges)
    size = 4.5 if count <= 50 else 3.2
    for cluster in sorted(set(clusters)):
        here = np.array(clusters) == cluster
        axes.plot(
            *places[here].T,
            linestyle="none",
            markersize=size,
            markeredgecolor="white",
            markeredgewidth=0.3,
            zorder=2,
            **cluster_line(cluster),
        )
    # Each time fills its panel, because only neighbourhood matters, not distance.
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    reach = max(float(np.ptp(places, axis=0).max()) / 2, 1.0) * 1.08
    axes.set(
        xlim=(middle[0] - reach, middle[0] + reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        aspect="equal",
    )
    axes.set_axis_off()


def unpack_array(packed: Json) -> npt.NDArray[np.int64]:
    """Return an array that `pack_array` packed."""
    dtype = np.dtype(packed["type"]).newbyteorder("<")
    values = np.frombuffer(base64.b64decode(packed["base64"]), dtype=dtype)
    return values.reshape(packed["shape"]).astype(np.int64)
