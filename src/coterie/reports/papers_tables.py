"""The tables of `coterie papers`: published numbers with ours, and a summary per table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coterie.experiments.published import published_tables
from coterie.experiments.published.published_table import PublishedTable
from coterie.reports.comparison_tables import UNKNOWN, TextRow, TextTable
from coterie.results.reproduction import (
    FEWEST_SEEDS,
    JUDGEMENTS,
    FigureRow,
    Row,
    Summary,
    summarise,
)

TITLES = {
    "met": "met",
    "explained": "differs, explained",
    "unexplained": "differs, unexplained",
    "other setting": "other setting",
    "not run": "not run",
}
"""The judgements in words."""
COLUMNS = ("published", "setting", "rows", "met", "differs, explained", "differs, unexplained")


def build_summary_table(rows: Sequence[Row], figures: Sequence[FigureRow]) -> TextTable:
    """Return one row per published table and setting, then one per figure; the last cell is why.

    A reason may be long: `move_reasons_below` moves the reasons to the notes, for a terminal.
    """
    summaries = summarise(rows)
    lines = [_table_line(each) for each in summaries]
    total = {name: sum(each.counts[name] for each in summaries) for name in JUDGEMENTS}
    lines.append(_table_line(Summary("all tables", "", total)))
    by_figure: dict[tuple[str, str], list[FigureRow]] = {}
    for each in figures:
        by_figure.setdefault((each.source, each.shows), []).append(each)
    lines += [_figure_line(source, shows, mine) for (source, shows), mine in by_figure.items()]
    return TextTable(
        "Published tables and figures: how many of their rows our runs meet",
        (*COLUMNS, "not run", "why"),
        tuple(TextRow(cells) for cells in lines),
        (
            f"Met: the difference is at most {_tolerances()}, or within the 95% confidence "
            f"interval over at least {FEWEST_SEEDS} seeds. For squared errors a point is a "
            "percent.",
            "Not run: no finished run has the published setting in full length.",
        ),
        num_names=2,
    )


def move_reasons_below(sheet: TextTable) -> TextTable:
    """Return the summary table with its last column as notes."""
    notes = [
        f"{line.cells[0]}, {line.cells[1]}: {why}" for line in sheet.rows if (why := line.cells[-1])
    ]
    lines = tuple(replace(line, cells=line.cells[:-1]) for line in sheet.rows)
    return replace(sheet, header=sheet.header[:-1], rows=lines, notes=(*sheet.notes, *notes))


def _tolerances() -> str:
    """Return the usual tolerance, and the tolerances of the papers that differ."""
    usual = PublishedTable.model_fields["tolerance"].default
    others = {
        f"{table.source.partition(',')[0]}: {table.tolerance:g}"
        for table in published_tables().values()
        if table.tolerance != usual
    }
    return f"{usual:g} point ({'; '.join(sorted(others))})"


def _table_line(each: Summary) -> tuple[str, ...]:
    counts = each.counts
    missing = counts["other setting"] + counts["not run"]
    numbers = (each.num_rows, counts["met"], counts["explained"], counts["unexplained"], missing)
    return (each.source, each.preset, *map(str, numbers), " ".join(map(_sentence, each.why)))


def _figure_line(source: str, shows: str, mine: Sequence[FigureRow]) -> tuple[str, ...]:
    """Return the row of a figure; a figure without a claim counts as made or not run."""
    judged = [each.judgement for each in mine]
    is_claim = any(each in ("met", "unexplained") for each in judged)
    made = f"{judged.count('made')} made" if "made" in judged else UNKNOWN
    missing = [each for each in mine if each.judgement == "not run"]
    # The experiment is named if other experiments of the figure have other reasons.
    reasons = dict.fromkeys(
        f"{each.experiment}: {each.why}."
        if len({one.why for one in mine}) > 1
        else _sentence(each.why)
        for each in missing
    )
    return (
        source,
        shows,
        str(len(mine)),
        str(judged.count("met")) if is_claim else made,
        UNKNOWN,
        str(judged.count("unexplained")) if is_claim else UNKNOWN,
        str(len(missing)),
        " ".join(reasons),
    )


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text[0].upper()}{text[1:]}."


def build_number_table(rows: Sequence[Row]) -> TextTable:
    """Return one row per published number that we have run too."""
    header = ("published", "setting", "strategy", "number", "published", "ours", "difference")
    return TextTable(
        "Published numbers beside ours",
        (*header, "seeds", "judgement"),
        tuple(TextRow(_number_line(row)) for row in rows),
        num_names=4,
    )


def _number_line(row: Row) -> tuple[str, ...]:
    reached = row.reached or 0.0
    ours = f"{reached:.2f}" + ("" if row.interval is None else f" ± {row.interval:.2f}")
    theirs = f"{row.published:.2f}"
    if row.published_interval is not None:
        theirs += f" ± {row.published_interval:.2f}"
    return (
        row.source,
        row.preset,
        row.strategy,
        row.part,
        theirs,
        ours,
        f"{reached - row.published:+.2f}",
        str(row.num_seeds),
        TITLES[row.judgement] + (f": {row.why}" if row.judgement == "other setting" else ""),
    )
