"""The picture of docs/reproduction.md: published numbers against ours."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.reports.colours import BLUE, GREY, VERMILION
from coterie.reports.figures.style import MARKERS, PAGE, add_legend, new_figure, use_style
from coterie.reports.papers_tables import TITLES
from coterie.results.reproduction import Row
from make_pictures import PICTURES, WIDTH, save_picture

NAME = "reproduction"
CAPTION = "Published numbers against ours, of all full runs; on the line they are equal"
COLOURS = {"met": BLUE, "explained": GREY, "unexplained": VERMILION}
NUM_COLOURS = 128
HEIGHT = 3.1
"""Inches."""


def draw(rows: Sequence[Row], folder: Path = PICTURES) -> None:
    """Draw all numbers that can be compared, accuracies beside squared errors."""
    shown = [row for row in rows if row.is_comparable]
    with use_style():
        figure = new_figure(PAGE, HEIGHT)
        accuracies, errors = figure.subplots(1, 2)
        papers = sorted({_paper(row) for row in shown})
        shares = [row for row in shown if row.is_accuracy]
        _panel(accuracies, shares, papers, "accuracy or share (%)")
        _panel(errors, [row for row in shown if not row.is_accuracy], papers, "squared error")
        errors.set_xscale("log")
        errors.set_yscale("log")
        for axis in (errors.xaxis, errors.yaxis):
            axis.set_major_formatter("{x:g}")
        _legend(figure, shown, papers)
        file = io.BytesIO()
        figure.savefig(file, format="png", metadata={"Software": None})
    save_picture(file.getvalue(), NAME, WIDTH, folder, NUM_COLOURS)


def _panel(axes: Axes, rows: Sequence[Row], papers: Sequence[str], unit: str) -> None:
    for row in rows:
        axes.errorbar(
            row.published,
            row.reached or 0.0,
            xerr=row.published_interval,
            yerr=row.interval,
            fmt=MARKERS[papers.index(_paper(row))],
            color=COLOURS[row.judgement],
            markersize=4.5 if row.is_headline else 2.5,
            elinewidth=0.8,
        )
    values = [value for row in rows for value in (row.published, row.reached) if value]
    if values:
        ends = [min(values) * 0.95, max(values) * 1.05]
        axes.plot(ends, ends, color="#777777", linewidth=0.6)
    axes.set_xlabel(f"published: {unit}")
    axes.set_ylabel(f"ours: {unit}")


def _legend(figure: Figure, rows: Sequence[Row], papers: Sequence[str]) -> None:
    """Say which colour is which judgement, and which marker is which paper."""
    judged = {row.judgement for row in rows}
    lines = {
        TITLES[name]: {"color": colour, "marker": "o", "linestyle": "none"}
        for name, colour in COLOURS.items()
        if name in judged
    }
    for number, paper in enumerate(papers):
        lines[paper] = {"color": "#333333", "marker": MARKERS[number], "linestyle": "none"}
    add_legend(figure, lines)


def _paper(row: Row) -> str:
    return row.source.partition(",")[0]
