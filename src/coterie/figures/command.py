"""`coterie figures`: the figures of papers, from runs of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from coterie import consoles
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
    from coterie.figures.catalogue import all_figures
    from coterie.figures.files import write
    from coterie.figures.style import style
    from coterie.gathering import gather
    from coterie.storage import make_folder

    gathered = gather(runs)
    for problem in gathered.problems:
        consoles.errors.print(
            problem, soft_wrap=True, highlight=False, markup=False, style="yellow"
        )
    folder = target or runs[0] / "figures"
    make_folder(folder)
    count = 0
    with style():
        for name, figure in all_figures(gathered, runs):
            path = write(figure, folder, name, kind)
            consoles.out.print(path.name, highlight=False, markup=False)
            count += 1
    if not count:
        raise StorageError(
            f"There is nothing to draw in {runs[0]} yet: not even two rounds have been recorded. "
            "Try again later."
        )
    where = f"{count} figures are in {folder}"
    consoles.out.print(where, soft_wrap=True, highlight=False, markup=False)
