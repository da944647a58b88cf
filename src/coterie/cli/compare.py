"""`coterie compare`: strategies side by side, and which differences are more than luck."""

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
            help="The strategy that others are held against; local, or the first, if not given.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        Literal[
            "test-accuracy", "test-loss", "validation-accuracy", "validation-loss", "train-loss"
        ]
        | None,
        typer.Option(
            help="What is compared; the test of the best models by validation, if not given.",
            show_default=False,
        ),
    ] = None,
    per: Annotated[
        Literal["mean", "cluster"],
        typer.Option(help="Which differences are shown: of the mean, or of each cluster too."),
    ] = "mean",
    form: Annotated[
        Literal["terminal", "markdown", "latex", "csv"] | None,
        typer.Option(
            "--format", help="How it is written; as the ending of --out says, if not given."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it to a file.")
    ] = None,
) -> None:
    """Compare strategies: means over seeds, paired differences, communication, time, papers."""
    from coterie.reports.comparison_tables import build_tables
    from coterie.reports.table_formats import format_comparisons, render_console
    from coterie.results.comparison import compare as compared_runs
    from coterie.results.read_runs import read_runs
    from coterie.storage.files import write_text

    chosen = form or _format_of(out)
    gathered = read_runs(folders)
    found = compared_runs(gathered, measure, baseline)
    console.tell_problems(gathered.problems)
    if out is not None:
        write_text(out, format_comparisons(found, chosen, per_cluster=per == "cluster"))
        console.out.print(f"Written to {out}", soft_wrap=True, highlight=False, markup=False)
    elif chosen == "terminal":
        for each in found:
            for sheet in build_tables(each, per_cluster=per == "cluster"):
                console.out.print(render_console(sheet))
    else:
        typer.echo(format_comparisons(found, chosen, per_cluster=per == "cluster"), nl=False)


def _format_of(file: Path | None) -> Format:
    """Return the format that the ending of a file stands for."""
    from coterie.reports.table_formats import ENDINGS

    if file is None:
        return "terminal"
    if file.suffix not in ENDINGS:
        raise ConfigError(
            f"--out {file}: its ending says no format. End it with {', '.join(ENDINGS)}, or add "
            "--format."
        )
    return ENDINGS[file.suffix]
