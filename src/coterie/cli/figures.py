"""`coterie figures`: draw the figures of the papers from your own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from coterie.cli import console
from coterie.errors import StorageError


def figures(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Output folders of `coterie run`.")
    ],
    purpose: Annotated[
        Literal["paper"],
        typer.Option("--for", help="The purpose, which decides sizes and fonts."),
    ] = "paper",
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for the figures. Default: FIRST-RUN/figures.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Literal["pdf", "svg", "png"], typer.Option("--format", help="The format of the files.")
    ] = "pdf",
) -> None:
    """Draw the figures of the papers, for print: curves, merges, heatmaps, graphs, sweeps."""
    from coterie.reports.figures.all_figures import draw_all
    from coterie.reports.figures.style import use_style, write_figure
    from coterie.results.read_runs import read_runs
    from coterie.storage.files import make_folder

    found = read_runs(runs)
    console.print_problems(found.problems)
    folder = target or runs[0] / "figures"
    make_folder(folder)
    count = 0
    with use_style():
        for name, figure in draw_all(found, runs):
            path = write_figure(figure, folder, name, kind)
            console.out.print(path.name, highlight=False, markup=False)
            count += 1
    if not count:
        raise StorageError(
            f"There is nothing to draw yet: {runs[0]} has fewer than two recorded rounds. Try "
            "again later."
        )
    console.print_result(f"{count} figures are in {folder}")
