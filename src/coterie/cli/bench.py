"""`coterie bench`: how fast this machine trains, with torch and with compiled code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from coterie.cli import console
from coterie.cli.options import Threads
from coterie.errors import StorageError

if TYPE_CHECKING:
    from coterie.benchmarking.bench_report import BenchReport
    from coterie.benchmarking.timing import Tick, Workload


def bench(
    models: Annotated[
        str | None,
        typer.Option(
            help="Architectures, separated by commas. Default: all that compiled code can train.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quick test in seconds: small sizes, two repeats.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the numbers to this file.", show_default=False
        ),
    ] = None,
) -> None:
    """Measure how fast this machine trains and evaluates, with torch and with compiled code."""
    from coterie.benchmarking.model_speed import MODELS
    from coterie.benchmarking.timing import FULL, QUICK
    from coterie.models.architectures import architecture
    from coterie.storage.files import write_text

    names = [name.strip() for name in models.split(",")] if models else list(MODELS)
    for name in names:
        architecture(name)  # refuses unknown names
    if json_file is not None:
        _check_writable(json_file)
    report = _measure(names, QUICK if quick else FULL, threads or os.cpu_count() or 1)
    for part in report.parts():
        console.out.print(part, highlight=False)
    if json_file is not None:
        write_text(json_file, json.dumps(report.figures(), indent=2) + "\n")
        console.print_result(f"Written to {json_file}")


def _check_writable(file: Path) -> None:
    """Refuse a file that cannot be written, before measuring for minutes."""
    folder = file.parent
    if not folder.is_dir():
        raise StorageError(
            f"Cannot write {file}: there is no folder {folder}. Create it first, or choose another "
            "file with --json."
        )
    if file.is_dir() or not os.access(folder, os.W_OK):
        raise StorageError(
            f"Cannot write {file}: "
            f"{'it is a folder' if file.is_dir() else f'{folder} is not writable'}. Choose another "
            "file with --json."
        )


def _measure(names: Sequence[str], workload: Workload, threads: int) -> BenchReport:
    from coterie.benchmarking.bench_report import BenchReport
    from coterie.benchmarking.machine import describe_machine
    from coterie.benchmarking.model_speed import measure_model
    from coterie.benchmarking.round_speed import (
        describe_round,
        measure_rounds,
        num_measured_rounds,
        round_config,
    )

    steps = len(names) * workload.repeats + num_measured_rounds(workload)
    with show_progress(steps, console.errors) as tick:
        return BenchReport(
            describe_machine(),
            workload,
            [measure_model(name, workload, tick) for name in names],
            describe_round(round_config(workload)),
            measure_rounds(workload, threads, tick),
        )


@contextmanager
def show_progress(steps: int, console: Console) -> Iterator[Tick]:
    """Show the progress: a bar on a terminal, elsewhere one line per part."""
    # Drawn here and not by another thread, whose CPU time would be measured.
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        auto_refresh=False,
    )
    task = bar.add_task("starting", total=steps)
    shown: set[str] = set()

    def tick(part: str) -> None:
        if not console.is_terminal and part not in shown:
            shown.add(part)
            console.print(f"Measuring {part}", highlight=False, markup=False)
        bar.update(task, advance=1, description=part)
        bar.refresh()

    with bar:
        bar.refresh()
        yield tick
