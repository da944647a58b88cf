"""Experiments in front of a person: progress while they run, results, and how to continue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from coterie.cli.console import errors, out
from coterie.errors import CoterieError, Interrupted

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment


def run_shown(
    experiment: Experiment, preset: str, threads: int | None, side_by_side: int | None
) -> None:
    """Run an experiment with bars, then show what its runs reached."""
    with results_shown(experiment, preset):
        run_with_progress(experiment, threads, side_by_side)


def run_with_progress(
    experiment: Experiment, threads: int | None, side_by_side: int | None
) -> None:
    """Run an experiment with bars and an estimate; on all cores if no number is given."""
    from coterie.cli.progress import Display

    threads = threads or os.cpu_count() or 1
    with Display(experiment, errors) as display:
        experiment.run(
            threads=threads,
            side_by_side=side_by_side or experiment.best_side_by_side(threads),
            on_round=display.show,
            on_end=display.end,
            tell=display.tell,
        )


@contextmanager
def results_shown(experiment: Experiment, preset: str) -> Iterator[None]:
    """Show what the runs have reached, also where one of them failed."""
    try:
        yield
    except CoterieError:
        if experiment.summaries:
            _show_results(experiment, preset)
        raise
    _show_results(experiment, preset)


@contextmanager
def continuable(folder: Path) -> Iterator[None]:
    """Say how to continue after Ctrl-C, from the moment on when there is something to continue."""
    from coterie.experiments.experiment import EXPERIMENT
    from coterie.experiments.failures import how_to_continue

    try:
        yield
    except Interrupted as error:
        if any((folder / name).exists() for name in (EXPERIMENT, "config.yaml")):
            error.add_note(how_to_continue(folder))
        raise


def _show_results(experiment: Experiment, preset: str) -> None:
    """Show what the finished runs reached."""
    from coterie.reports.final_table import build_final_table
    from coterie.reports.sweep_tables import report_sweep
    from coterie.results.published_comparison import comparison
    from coterie.results.result_columns import group_warnings

    if experiment.grid is None:
        published = comparison([run.config for run in experiment.runs if run.read_summary()])
        out.print(build_final_table(escape(preset), experiment.summaries, published))
    else:
        for part in report_sweep(experiment, preset):
            out.print(part, soft_wrap=isinstance(part, Text), highlight=False)
    for text in group_warnings(experiment.summaries):
        warning = f"Warning: {text}"
        out.print(warning, style="yellow", soft_wrap=True, highlight=False, markup=False)
    where = f"Everything is in {experiment.folder}"
    out.print(where, soft_wrap=True, highlight=False, markup=False)
