"""The style of figures for papers: column widths, 8 pt text, lines that differ without colour.

The same input gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from coterie.reports.colours import cluster_colour, strategy_colour
from coterie.storage.files import write_atomically

COLUMN, PAGE = 3.35, 6.9
"""The widths of one column and of a page with two, in inches."""
MAX_TEXT = 28
"""Maximum length of a name."""
FONT = "DejaVu Sans"
"""Part of matplotlib, so the same input gives the same bytes on every computer."""
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
NUM_MARKERS = 6
"""About how many markers a curve has."""
SETTINGS: dict[str, Any] = {
    "font.family": [FONT],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.4,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "image.interpolation": "nearest",
    # Type 42: embedded TrueType fonts, which publishers require and readers can search.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "coterie",
    # Names from runs are text, not formulas.
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "savefig.dpi": 300,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}

FigureFormat: TypeAlias = Literal["pdf", "svg", "png"]
_NO_DATE: dict[FigureFormat, dict[str, str | None]] = {
    "pdf": {"Creator": "coterie", "Producer": None, "CreationDate": None},
    "svg": {"Creator": "coterie", "Date": None},
    "png": {"Software": None},
}


@contextmanager
def use_style() -> Iterator[None]:
    """Use this style for drawing and writing."""
    # The user's matplotlibrc must not change the figures.
    defaults = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    settings: Any = {**defaults, **SETTINGS}
    with mpl.rc_context(settings):
        yield


def write_figure(figure: Figure, folder: Path, name: str, file_format: FigureFormat) -> Path:
    """Write a figure as FOLDER/NAME.FORMAT."""

    def fill(file: BinaryIO) -> str:
        figure.savefig(file, format=file_format, metadata=_NO_DATE[file_format])
        return f"{name}.{file_format}"

    return write_atomically(folder, fill)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, with constrained layout."""
    return Figure(figsize=(width, height), layout="constrained")


def new_panels(
    count: int, *, per_row: int = 5, height: float = 1.7, **sharing: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with equal panels: one has the width of a column, several that of a page."""
    num_rows = -(-count // per_row)
    num_columns = -(-count // num_rows)
    width = COLUMN if count == 1 else PAGE
    figure = new_figure(width, (2.3 if count == 1 else height * num_rows + 0.35))
    axes = figure.subplots(num_rows, num_columns, squeeze=False, **sharing)
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def strategy_line(index: int) -> dict[str, Any]:
    """Return the colour, dashes and marker of a strategy's curve."""
    return {
        "color": strategy_colour(index),
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def cluster_line(index: int) -> dict[str, Any]:
    """Return the colour and marker of a cluster's curve."""
    return {"color": cluster_colour(index), "marker": MARKERS[index % len(MARKERS)]}


def marker_places(index: int, num_points: int) -> tuple[int, int]:
    """Return which points of a curve have a marker; neighbouring curves have different ones."""
    step = max(1, num_points // NUM_MARKERS)
    return (index * max(1, step // 3)) % step, step


def add_legend(figure: Figure, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Add a legend above all panels."""
    handles = [Line2D([], [], **line) for line in entries.values()]
    widest = max(len(name) for name in entries)
    per_row = max(1, int(figure.get_figwidth() / (0.52 + 0.066 * widest)))
    figure.legend(
        handles,
        list(entries),
        loc="outside upper center",
        ncols=min(len(entries), per_row),
        columnspacing=1.2,
    )


def format_round_axis(axes: Axes) -> None:
    """Show whole numbers on the axis of rounds."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(ScalarFormatter(useMathText=False))
    axes.set_xlabel("round")


def clean_name(text: str) -> str:
    """Return a name that can be drawn: one short line of characters that the font has."""
    line = re.sub(r"\s+", " ", "".join(c if c.isprintable() or c.isspace() else "�" for c in text))
    drawable = "".join(letter if _can_draw(letter) else "�" for letter in line.strip())
    if len(drawable) > MAX_TEXT:
        end = MAX_TEXT // 3
        drawable = f"{drawable[: MAX_TEXT - 1 - end]}…{drawable[-end:]}"
    # In a legend, matplotlib ignores names with a leading underscore.
    return f" {drawable}" if drawable.startswith("_") else drawable or "�"


@cache
def _can_draw(letter: str) -> bool:
    font = font_manager.get_font(font_manager.findfont(FONT))
    return bool(font.get_char_index(ord(letter)))
