"""`coterie figures`: the figures of papers, from runs of one's own."""

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
        typer.Option("--for", help="Where they will stand, which decides sizes and letters."),
    ] = "paper",
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Where they go; FIRST-RUN/figures when not given.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Literal["pdf", "svg", "png"], typer.Option("--format", help="What kind of files.")
    ] = "pdf",
) -> None:
    """Write the figures of the papers, for print: curves, merges, heatmaps, graphs, sweeps."""
    from coterie.reports.figures.all_figures import draw_all
    from coterie.reports.figures.style import use_style, write_figure
    from coterie.results.read_runs import read_runs
    from coterie.storage.files import make_folder

    gathered = read_runs(runs)
    for problem in gathered.problems:
        console.errors.print(problem, soft_wrap=True, highlight=False, markup=False, style="yellow")
    folder = target or runs[0] / "figures"
    make_folder(folder)
    count = 0
    with use_style():
        for name, figure in draw_all(gathered, runs):
            path = write_figure(figure, folder, name, kind)
            console.out.print(path.name, highlight=False, markup=False)
            count += 1
    if not count:
        raise StorageError(
            f"There is nothing to draw in {runs[0]} yet: not even two rounds have been recorded. "
            "Try again later."
        )
    where = f"{count} figures are in {folder}"
    console.out.print(where, soft_wrap=True, highlight=False, markup=False)
