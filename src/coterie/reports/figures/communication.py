"""Test results against what peers sent and received for them."""

from __future__ import annotations

from matplotlib.figure import Figure

from coterie.reports.figures.accuracy import keep_in_view, known, measure_name
from coterie.reports.figures.style import (
    COLUMN,
    legend_above,
    marked,
    new_figure,
    plain,
    strategy_line,
)
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.frontier import frontier


def communication(subject: Subject) -> dict[str, Figure]:
    """Return one figure: each strategy's way, and where it ended with its 95% interval."""
    data = frontier(subject)
    if "missing" in data:
        return {}
    figure = new_figure(COLUMN, 2.5)
    axes = figure.subplots()
    entries = {}
    for index, way in enumerate(data["ways"]):
        if not way["round"]:
            continue
        line = strategy_line(index)
        models, level = known(way["models"]), known(way["level"])
        if models[-1] > 0:
            axes.plot(models, level, markevery=marked(index, len(models)), **line)
        else:  # it costs nothing: what it reaches, whatever others spend
            axes.axhline(level[-1], **{**line, "marker": "none"})
        width = way["width"][-1]
        if width is not None:
            axes.errorbar(
                models[-1], level[-1], yerr=width, color=line["color"], capsize=2, linewidth=0.8
            )
        entries[plain(data["strategies"][index]["label"])] = line
    keep_in_view([axes], [way["level"] for way in data["ways"]], data["measure"])
    axes.set_xlabel("models sent and received per peer")
    axes.set_ylabel(f"test {measure_name(data)}")
    legend_above(figure, entries)
    return {"communication-and-results": figure}
