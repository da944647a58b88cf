"""The collaboration graph at several times: who prefers whom (DAC, figure 1)."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from coterie.reports.figures.style import PAGE, cluster_line, legend_above, new_figure, plain
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.graph import graph
from coterie.reports.html.views.view_parts import Json

NUM_TIMES = 4
MIN_STRENGTH = 0.1
"""Edges that would be drawn weaker than this share of the strongest are left out."""


def graphs(subject: Subject) -> dict[str, Figure]:
    """Return one figure per strategy that exchanges models, of its first seed."""
    first = Subject(tuple(runs[0] for runs in subject.by_label.values()))
    data = graph(first)
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
    there: set[int] = set()
    for each, place in zip(axes, shown.astype(int).tolist(), strict=True):
        clusters = run["bins"][str(windows[place][0])]["clusters"]
        there |= set(clusters)
        _draw(each, run, place, clusters)
        _, start, end = windows[place]
        each.set_title(f"round {end}" if start == end else f"rounds {start}–{end}")
    legend_above(
        figure,
        {
            plain(data["clusters"][number]["name"]): cluster_line(number)
            | {"linestyle": "none", "markersize": 5}
            for number in sorted(there)
        },
    )
    return figure


def _draw(axes: Axes, run: Json, place: int, clusters: Sequence[int]) -> None:
    count = len(clusters)
    places, targets, strengths = (
        unpacked(run[name])[place][:count] for name in ("places", "targets", "strengths")
    )
    # The root lifts weak preferences into view, which all are before groups have formed.
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
    # Each time fills its panel: who stands beside whom is what counts, not how far.
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    reach = max(float(np.ptp(places, axis=0).max()) / 2, 1.0) * 1.08
    axes.set(
        xlim=(middle[0] - reach, middle[0] + reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        aspect="equal",
    )
    axes.set_axis_off()


def unpacked(packed: Json) -> npt.NDArray[np.int64]:
    """Return an array that `views.base.packed` packed."""
    kind = np.dtype(packed["type"]).newbyteorder("<")
    values = np.frombuffer(base64.b64decode(packed["base64"]), dtype=kind)
    return values.reshape(packed["shape"]).astype(np.int64)
