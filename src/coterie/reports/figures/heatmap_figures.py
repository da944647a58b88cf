"""Which peer fetched which model, at several times (DAC, figure 4; FRIENDS, figure 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from coterie.experiments.run_folder import RunFolder
from coterie.reports.colours import SEQUENTIAL, cluster_colour
from coterie.reports.figures.style import COLUMN, PAGE, clean_name, new_figure
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.fetch_windows import Window, read_windows

NUM_TIMES = 4
"""Number of panels, one per time."""
_COLOURS = LinearSegmentedColormap.from_list("white to dark", SEQUENTIAL)


def draw_heatmaps(group: RunGroup) -> dict[str, Figure]:
    """Return a figure for the first seed of each strategy that exchanges models."""
    drawn = {}
    for label, runs in group.runs_by_label.items():
        windows = list(read_windows(runs[0]))
        if windows:
            drawn[f"communication-{label}"] = _figure(runs[0], pick_windows(windows), group)
    return drawn


def pick_windows(windows: Sequence[Window]) -> list[Window]:
    """Return a few windows, evenly spread, including the first and the last."""
    places = np.linspace(0, len(windows) - 1, min(NUM_TIMES, len(windows))).round().astype(int)
    return [windows[place] for place in dict.fromkeys(places.tolist())]


def _figure(run: RunFolder, shown: Sequence[Window], group: RunGroup) -> Figure:
    width = COLUMN if len(shown) <= 2 else PAGE
    # Panels are square and share the width that the labels leave.
    figure = new_figure(width, (width - 1.2) / len(shown) + 0.5)
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    highest = max(float(window.fetched.max()) for window in shown)
    for place, (each, window) in enumerate(zip(axes, shown, strict=True)):
        image = each.imshow(window.fetched, cmap=_COLOURS, vmin=0, vmax=highest, aspect="equal")
        each.set_title(name_rounds(window))
        _cluster_edges(each, window, group.cluster_names, is_first=place == 0)
    bar = figure.colorbar(image, ax=list(axes), shrink=0.8, pad=0.01, aspect=25)
    bar.outline.set_linewidth(0.4)
    bar.locator = MaxNLocator(4, integer=highest >= 2)
    bar.update_ticks()
    bar.set_label(
        "times fetched"
        if len(shown[0].bins.clusters) == run.num_peers
        else "times fetched, mean of pairs"
    )
    figure.supxlabel("peer whose model was fetched", fontsize=8)
    return figure


def name_rounds(window: Window) -> str:
    """Return the rounds of a window in words."""
    return (
        f"round {window.last}"
        if window.first == window.last
        else (f"rounds {window.first}–{window.last}")
    )


def _cluster_edges(axes: Axes, window: Window, names: Sequence[str], *, is_first: bool) -> None:
    """Draw lines between the true clusters and write their names on the left."""
    clusters = window.bins.clusters
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    ends = np.append(starts[1:], len(clusters))
    axes.grid(visible=False)
    for start in starts[1:]:
        axes.axhline(start - 0.5, color="#444444", linewidth=0.5)
        axes.axvline(start - 0.5, color="#444444", linewidth=0.5)
    middles = (starts + ends - 1) / 2
    axes.set_xticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_linewidth(0.5)
    if not is_first:
        axes.set_yticks([])
        return
    axes.set_yticks(middles, [clean_name(names[clusters[start]]) for start in starts])
    axes.tick_params(axis="y", length=0)
    for text, start in zip(axes.get_yticklabels(), starts, strict=True):
        text.set_bbox({"boxstyle": "square,pad=0.1", "facecolor": "none", "edgecolor": "none"})
        text.set_color(_darken(cluster_colour(int(clusters[start]))))
    axes.set_ylabel("peer that fetched")


def _darken(colour: str) -> str:
    """Return a darker colour, for text on white."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    factor = 0.6
    return f"#{int(red * factor):02x}{int(green * factor):02x}{int(blue * factor):02x}"
