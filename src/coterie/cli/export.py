"""`coterie export`: runs in the formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import console


def export(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Output folders of `coterie run`, or single runs."),
    ],
    tensorboard: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Where TensorBoard event files go, in one folder per run."
        ),
    ],
) -> None:
    """Export runs to TensorBoard: curves per cluster, communication and time."""
    from coterie.reports.export.tensorboard import export_runs, load_event_writer
    from coterie.results.read_runs import read_runs

    load_event_writer()  # refuses before anything is read
    gathered = read_runs(folders)
    console.tell_problems(gathered.problems)
    for written in export_runs(gathered, tensorboard):
        console.out.print(f"Written {written}", soft_wrap=True, highlight=False, markup=False)
    console.out.print(
        f"Look at it with: tensorboard --logdir {tensorboard}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
