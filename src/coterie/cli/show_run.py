"""Runs experiments with progress, shows their results, and says how to continue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from coterie.cli.console import errors, out, print_message, print_result
from coterie.errors import ConfigError, CoterieError, Interrupted

if TYPE_CHECKING:
    from coterie.experiments.engine import Engine
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.run_folder import RunFolder
    from coterie.loggers.logger import LoggerName
    from coterie.runtime.round_metrics import RoundMetrics


def run_and_show(
    experiment: Experiment,
    preset: str,
    threads: int | None,
    side_by_side: int | None,
    log: LoggerName | None = None,
    engine: Engine | None = None,
) -> None:
    """Run an experiment with progress bars, then show the results."""
    with show_results_after(experiment, preset):
        run_with_progress(experiment, threads, side_by_side, log, engine)


def run_with_progress(
    experiment: Experiment,
    threads: int | None,
    side_by_side: int | None,
    log: LoggerName | None = None,
    engine: Engine | None = None,
) -> None:
    """Run an experiment with progress bars; `threads` is by default the number of cores."""
    from coterie.cli.log_runs import log_runs
    from coterie.cli.progress import Display

    threads = threads or os.cpu_count() or 1
    with Display(experiment, errors) as display, log_runs(log) as logs:

        def on_round(run: RunFolder, now: RoundMetrics) -> None:
            display.show(run, now)
            logs.log(run, now)

        def on_end(run: RunFolder) -> None:
            display.end(run)
            logs.end(run)

        experiment.run(
            threads=threads,
            side_by_side=side_by_side or experiment.best_side_by_side(threads),
            on_round=on_round,
            on_end=on_end,
            tell=display.tell,
            engine=engine,
        )


@contextmanager
def open_engine(
    name: str,
    address: str | None,
    threads: int | None,
    side_by_side: int | None,
    shards: int | None = None,
) -> Iterator[Engine | None]:
    """Open the engine that executes runs; None is this computer."""
    if name == "local":
        for option, value in (("--address", address), ("--shards", shards)):
            if value is not None:
                raise ConfigError(f"{option} {value}: this option needs --engine ray.")
        yield None
        return
    from coterie.cluster.engine import open_ray_engine

    with open_ray_engine(
        address,
        print_message,
        threads=threads,
        side_by_side=side_by_side,
        num_shards=shards,
    ) as engine:
        yield engine


@contextmanager
def show_results_after(experiment: Experiment, preset: str) -> Iterator[None]:
    """Show the results of the finished runs at the end, even if a run failed."""
    try:
        yield
    except CoterieError:
        if experiment.summaries:
            _show_results(experiment, preset)
        raise
    _show_results(experiment, preset)


@contextmanager
def note_how_to_continue(folder: Path) -> Iterator[None]:
    """Add to an interruption how to continue, once there is an experiment to continue."""
    from coterie.experiments.experiment_file import EXPERIMENT
    from coterie.experiments.failures import how_to_continue

    try:
        yield
    except Interrupted as error:
        if any((folder / name).exists() for name in (EXPERIMENT, "config.yaml")):
            error.add_note(how_to_continue(folder))
        raise


def _show_results(experiment: Experiment, preset: str) -> None:
    """Show the results of the finished runs."""
    from coterie.reports.final_table import build_final_table
    from coterie.reports.sweep_tables import report_sweep
    from coterie.results.published_comparison import compare_with_published
    from coterie.results.result_columns import group_warnings

    if experiment.grid is None:
        published = compare_with_published(
            [run.config for run in experiment.runs if run.read_summary()]
        )
        out.print(build_final_table(escape(preset), experiment.summaries, published))
    else:
        for part in report_sweep(experiment, preset):
            out.print(part, soft_wrap=isinstance(part, Text), highlight=False)
    for text in group_warnings(experiment.summaries):
        print_result(f"Warning: {text}", "yellow")
    print_result(f"All files are in {experiment.folder}")
