"""Test results against communication."""

from __future__ import annotations

from matplotlib.figure import Figure

from coterie.reports.figures.curve_figures import fill_unknown, name_measure, scale_errors
from coterie.reports.figures.print_style import (
    COLUMN,
    add_legend,
    clean_name,
    marker_places,
    new_figure,
    strategy_line,
)
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.frontier_view import build_frontier


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
