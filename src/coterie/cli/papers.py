"""`coterie papers`: every published number beside ours, and whether it is met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.results.reproduction import FigureRow, Row


def papers(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER…", help="Folders of `coterie study papers` or of `coterie run`."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every number with its judgement, as JSON.")
    ] = False,
) -> None:
    """Compare runs with the published numbers: met, differs, or not run."""
    from coterie.errors import StorageError
    from coterie.results.read_reproductions import read_reproductions
    from coterie.results.reproduction import as_data, judge, judge_figures

    problems: list[str] = []
    found = read_reproductions(folders, problems)
    if not found:
        reasons = "\n".join(problems) or "Name folders of finished runs of the papers' presets."
        raise StorageError(f"There is no finished run of a paper's preset.\n{reasons}")
    console.tell_problems(problems)
    rows, figures = judge(found), judge_figures(found)
    if as_json:
        typer.echo(json.dumps(as_data(rows, figures), indent=1, ensure_ascii=False))
    else:
        _show(rows, figures)


def _show(rows: Sequence[Row], figures: Sequence[FigureRow]) -> None:
    from coterie.reports.papers_tables import (
        build_number_table,
        build_summary_table,
        move_reasons_below,
    )
    from coterie.reports.table_formats import render_console

    compared = [row for row in rows if row.reached is not None]
    for sheet in (
        build_number_table(compared),
        move_reasons_below(build_summary_table(rows, figures)),
    ):
        console.out.print(render_console(sheet))
