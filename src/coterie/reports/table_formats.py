"""Comparisons as files: Markdown, LaTeX with booktabs, CSV, and tables for a terminal."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coterie.reports.comparison_tables import Sheet, sheets
from coterie.results.comparison import ComparedStrategy, ComparedValue, PresetComparison

Format: TypeAlias = Literal["terminal", "markdown", "latex", "csv"]
ENDINGS: dict[str, Format] = {".txt": "terminal", ".md": "markdown", ".tex": "latex", ".csv": "csv"}
WIDTH = 160
"""How wide a table in a text file may be."""


def written(compared: Sequence[PresetComparison], form: Format, *, per_cluster: bool) -> str:
    """Return the comparisons as the text of a file."""
    if form == "csv":
        return csv_text(compared)
    found = [sheet for each in compared for sheet in sheets(each, per_cluster=per_cluster)]
    writers: dict[str, Callable[[Sheet], str]] = {
        "markdown": markdown,
        "latex": latex,
        "terminal": _plain_text,
    }
    text = "\n".join(writers[form](sheet) for sheet in found)
    return f"% Needs \\usepackage{{booktabs}}.\n{text}" if form == "latex" else text


def console_sheet(sheet: Sheet) -> RenderableType:
    """Return a sheet for a terminal, the best strategy in bold."""
    table = Table(title=Text(sheet.title), title_justify="left")
    for place, name in enumerate(sheet.header):
        is_name = place < sheet.num_names
        # On a narrow terminal numbers go into two lines, before any name is cut.
        table.add_column(Text(name), justify="left" if is_name else "right", no_wrap=is_name)
    for row in sheet.rows:
        style = "bold" if row.is_best else ""
        table.add_row(*map(Text, row.cells), style=style, end_section=row.ends_group)
    return Group(table, *(Text(note, style="dim") for note in sheet.notes))


def _plain_text(sheet: Sheet) -> str:
    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None).print(console_sheet(sheet))
    # Lines are filled up with blanks to the width of the console.
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def markdown(sheet: Sheet) -> str:
    """Return a sheet as a Markdown table under a bold title."""
    header = [_markdown_cell(name) for name in sheet.header]
    aligned = ["---" if place < sheet.num_names else "---:" for place in range(len(header))]
    lines = [f"**{_markdown_cell(sheet.title)}**", "", _piped(header), _piped(aligned)]
    for row in sheet.rows:
        cells = [_markdown_cell(cell) for cell in row.cells]
        lines.append(
            _piped([f"**{cell}**" if cell else "" for cell in cells] if row.is_best else cells)
        )
    lines += [line for note in sheet.notes for line in ("", _markdown_cell(note))]
    return "\n".join(lines) + "\n"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(text: str) -> str:
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text.strip())


def latex(sheet: Sheet) -> str:
    """Return a sheet as a LaTeX table; booktabs draws the rules."""
    columns = "l" * sheet.num_names + "r" * (len(sheet.header) - sheet.num_names)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(sheet.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _ampersands([latex_escaped(name) for name in sheet.header]),
        r"\midrule",
    ]
    for place, row in enumerate(sheet.rows):
        cells = [_latex_cell(cell, bold=row.is_best) for cell in row.cells]
        lines.append(_ampersands(cells))
        if row.ends_group and place + 1 < len(sheet.rows):
            lines.append(r"\addlinespace")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip\footnotesize {latex_escaped(note)}" for note in sheet.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str, *, bold: bool) -> str:
    indent = r"\quad " if text.startswith("  ") else ""
    cell = indent + latex_escaped(text.strip())
    return rf"\textbf{{{cell}}}" if bold and cell else cell


_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "[": "{[}",  # at the beginning of a line it would be an option of the line break before it
    "]": "{]}",
    "*": "{*}",
    "°": r"$^\circ$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "†": r"$\dagger$",
    "…": r"\dots{}",
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()},
}


def latex_escaped(text: str) -> str:
    """Return text that LaTeX prints as it is; what it has no sign for is named by its number."""
    return "".join(_latex_sign(sign) for sign in text)


def _latex_sign(sign: str) -> str:
    if sign in _LATEX:
        return _LATEX[sign]
    # LaTeX knows the accented letters of Latin scripts by itself, and nothing beyond.
    known = (sign.isascii() and sign.isprintable()) or "À" <= sign <= "ž"
    return sign if known else f"U+{ord(sign):04X}"


CSV_HEADER = (
    "preset", "strategy", "part", "measure", "mean", "interval", "seeds", "unfinished",
    "baseline", "difference", "difference_interval", "common_seeds", "p_value", "p_value_holm",
    "published", "published_interval",
    "models", "probes", "megabytes", "wall_seconds", "cpu_seconds",
)  # fmt: skip


def csv_text(compared: Sequence[PresetComparison]) -> str:
    """Return one line per strategy and part; shares between 0 and 1, what is unknown empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for each in compared:
        for line in each.lines:
            for part, value in line.values.items():
                writer.writerow(_csv_row(each, line, part, value))
    return file.getvalue()


def _csv_row(
    compared: PresetComparison, line: ComparedStrategy, part: str, value: ComparedValue
) -> list[Any]:
    scale = 0.01 if compared.is_accuracy else 1.0
    difference, costs = value.difference, line.costs
    found = [difference.mean * scale, difference.width * scale] if difference else [None, None]
    tested = [difference.p_value, difference.corrected_p_value] if difference else [None, None]
    theirs = [value.published, value.published_width]
    numbers = [value.mean * scale, value.width * scale]
    return [
        *(compared.preset, line.label, part, compared.measure),
        *map(_csv_number, numbers),
        *(len(line.entries), line.num_unfinished, compared.baseline or ""),
        *map(_csv_number, found),
        difference.num_pairs if difference else "",
        *map(_csv_number, tested),
        *(_csv_number(None if number is None else number * scale) for number in theirs),
        *map(_csv_number, (costs.models, costs.probes, costs.megabytes)),
        *map(_csv_number, (costs.wall_seconds, costs.cpu_seconds)),
    ]


def _csv_number(value: float | None) -> float | str:
    return "" if value is None or math.isnan(value) else value
