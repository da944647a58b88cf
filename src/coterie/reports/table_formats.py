"""The formats of comparison tables: Markdown, LaTeX with booktabs, CSV and terminal."""

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

from coterie.reports.comparison_tables import TextTable, build_tables
from coterie.results.comparison import ComparedStrategy, ComparedValue, PresetComparison

Format: TypeAlias = Literal["terminal", "markdown", "latex", "csv"]
ENDINGS: dict[str, Format] = {".txt": "terminal", ".md": "markdown", ".tex": "latex", ".csv": "csv"}
WIDTH = 160
"""Maximum width of a table in a text file."""


def format_comparisons(
    compared: Sequence[PresetComparison], form: Format, *, per_cluster: bool
) -> str:
    """Return comparisons as the text of a file."""
    if form == "csv":
        return render_csv(compared)
    tables = [table for each in compared for table in build_tables(each, per_cluster=per_cluster)]
    writers: dict[str, Callable[[TextTable], str]] = {
        "markdown": render_markdown,
        "latex": render_latex,
        "terminal": _plain_text,
    }
    text = "\n".join(writers[form](table) for table in tables)
    return f"% Needs \\usepackage{{booktabs}}.\n{text}" if form == "latex" else text


def render_console(table: TextTable) -> RenderableType:
    """Return a table for a terminal, with the best strategy in bold."""
    shown = Table(title=Text(table.title), title_justify="left")
    for place, name in enumerate(table.header):
        is_name = place < table.num_names
        # On a narrow terminal numbers wrap, and names are not cut.
        shown.add_column(Text(name), justify="left" if is_name else "right", no_wrap=is_name)
    for row in table.rows:
        style = "bold" if row.is_best else ""
        shown.add_row(*map(Text, row.cells), style=style, end_section=row.ends_group)
    return Group(shown, *(Text(note, style="dim") for note in table.notes))


def _plain_text(table: TextTable) -> str:
    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None).print(render_console(table))
    # The console pads lines with blanks to its width.
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def render_markdown(table: TextTable) -> str:
    """Return a table in Markdown under a bold title."""
    header = [_markdown_cell(name) for name in table.header]
    aligned = ["---" if place < table.num_names else "---:" for place in range(len(header))]
    lines = [f"**{_markdown_cell(table.title)}**", "", *map(_markdown_row, (header, aligned))]
    for row in table.rows:
        cells = [_markdown_cell(cell) for cell in row.cells]
        bold = [f"**{cell}**" if cell else "" for cell in cells]
        lines.append(_markdown_row(bold if row.is_best else cells))
    lines += [line for note in table.notes for line in ("", _markdown_cell(note))]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(text: str) -> str:
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text.strip())


def render_latex(table: TextTable) -> str:
    """Return a table in LaTeX with booktabs."""
    columns = "l" * table.num_names + "r" * (len(table.header) - table.num_names)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row([escape_latex(name) for name in table.header]),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        cells = [_latex_cell(cell, bold=row.is_best) for cell in row.cells]
        lines.append(_latex_row(cells))
        if row.ends_group and place + 1 < len(table.rows):
            lines.append(r"\addlinespace")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip\footnotesize {escape_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str, *, bold: bool) -> str:
    indent = r"\quad " if text.startswith("  ") else ""
    cell = indent + escape_latex(text.strip())
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
    "[": "{[}",  # at the start of a line, LaTeX takes [ for an option of the line break before it
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


def escape_latex(text: str) -> str:
    """Return text escaped for LaTeX; unknown characters become their code points."""
    return "".join(_escape_latex_character(character) for character in text)


def _escape_latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    # LaTeX knows accented Latin letters, and no other characters beyond ASCII.
    known = (character.isascii() and character.isprintable()) or "À" <= character <= "ž"
    return character if known else f"U+{ord(character):04X}"


CSV_HEADER = (
    "preset", "strategy", "part", "measure", "mean", "interval", "seeds", "unfinished",
    "baseline", "difference", "difference_interval", "common_seeds", "p_value", "p_value_holm",
    "published", "published_interval",
    "models", "probes", "megabytes", "wall_seconds", "cpu_seconds",
)  # fmt: skip


def render_csv(compared: Sequence[PresetComparison]) -> str:
    """Return one row per strategy and part; accuracies are 0 to 1, unknown values are empty."""
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
    scale = 1 / compared.score.scale
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
