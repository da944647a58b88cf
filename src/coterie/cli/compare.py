"""`coterie compare`: strategies side by side, and which differences are significant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coterie.cli import console
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.reports.table_formats import Format


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Output folders of `coterie run`, or single runs."),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="The strategy that the others are compared with. Default: local, or the first.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        Literal["test-score", "test-loss", "validation-score", "validation-loss", "train-loss"]
        | None,
        typer.Option(
            help="The measure. Default: the test of the best models by validation.",
            show_default=False,
        ),
    ] = None,
    per: Annotated[
        Literal["mean", "cluster"],
        typer.Option(help="Show differences of the mean only, or of each cluster too."),
    ] = "mean",
    form: Annotated[
        Literal["terminal", "markdown", "latex", "csv"] | None,
        typer.Option("--format", help="The format. Default: as the ending of --out, or terminal."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the tables to this file.")
    ] = None,
) -> None:
    """Compare strategies: means over seeds, paired differences, costs, published numbers."""
    from coterie.reports.comparison_tables import build_tables
    from coterie.reports.table_formats import format_comparisons, render_console
    from coterie.results.comparison import compare as compare_runs
    from coterie.results.read_runs import read_runs
    from coterie.storage.files import write_text

    chosen = form or _format_of(out)
    runs = read_runs(folders)
    found = compare_runs(runs, measure, baseline)
    console.print_problems(runs.problems)
    if out is not None:
        write_text(out, format_comparisons(found, chosen, per_cluster=per == "cluster"))
        console.print_result(f"Written to {out}")
    elif chosen == "terminal":
        for each in found:
            for sheet in build_tables(each, per_cluster=per == "cluster"):
                console.out.print(render_console(sheet))
    else:
        typer.echo(format_comparisons(found, chosen, per_cluster=per == "cluster"), nl=False)


def _format_of(file: Path | None) -> Format:
    """Return the format that belongs to the ending of a file."""
    from coterie.reports.table_formats import ENDINGS

    if file is None:
        return "terminal"
    if file.suffix not in ENDINGS:
        raise ConfigError(
            f"--out {file}: the format is not clear from the ending. End it with "
            f"{', '.join(ENDINGS)}, or add --format."
        )
    return ENDINGS[file.suffix]
