"""`coterie export`: write runs in the formats of other programs."""

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
            metavar="FOLDER", help="Folder for TensorBoard event files, with one subfolder per run."
        ),
    ],
) -> None:
    """Export runs to TensorBoard: curves per cluster, communication and time."""
    from coterie.reports.export.tensorboard import export_runs, load_event_writer
    from coterie.results.read_runs import read_runs

    load_event_writer()  # fails if TensorBoard is not installed, before anything is read
    runs = read_runs(folders)
    console.print_problems(runs.problems)
    for written in export_runs(runs, tensorboard):
        console.print_result(f"Written to {written}")
    console.print_result(f"View it with: tensorboard --logdir {tensorboard}")
