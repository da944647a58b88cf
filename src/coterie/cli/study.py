"""`coterie study`: run a large comparison, which can be stopped, continued and extended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli import console
from coterie.cli.options import (
    Address,
    Changes,
    DataRoot,
    Device,
    EngineName,
    FirstSeedOrOwn,
    Out,
    Rounds,
    Scale,
    SeedsOrOwn,
    Shards,
    SideBySide,
    Strategies,
    Threads,
    Trainer,
    collect_changes,
    named_strategies,
    new_folder,
)
from coterie.errors import CoterieError, Interrupted, StorageError

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.studies.base import FolderPlan, Study


def study(
    name: Annotated[str, typer.Argument(help="The study, see `coterie list`.")] = "kin",
    only: Annotated[
        str | None,
        typer.Option(
            help="Some groups or settings, separated by commas, see --list. Default: all."
        ),
    ] = None,
    strategy: Strategies = None,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    scale: Scale = 1.0,
    change: Changes = None,
    data_root: DataRoot = None,
    folder: Out = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    engine: EngineName = "local",
    address: Address = None,
    shards: Shards = None,
    trainer: Trainer = None,
    device: Device = None,
    listing: Annotated[
        bool,
        typer.Option("--list", help="Run nothing. Show what would be run and what has finished."),
    ] = False,
) -> None:
    """Run a study: many settings and strategies. With its old --out folder, continue it."""
    from coterie.cli.show_run import open_engine, run_with_progress
    from coterie.experiments.config import check_sizes
    from coterie.studies.base import plan
    from coterie.studies.run_study import check_unchanged, open_study, run_parts
    from coterie.studies.study_list import find_study

    chosen = find_study(name)
    settings = chosen.chosen(named_strategies(only))
    changes = collect_changes(rounds, None, data_root, trainer, device, change)
    first = chosen.seeds.start if seed is None else seed
    numbers = range(first, first + (seeds or len(chosen.seeds)))
    batches = [[number] for number in numbers] if chosen.is_seed_by_seed else [numbers]
    labels = named_strategies(strategy)
    parts = [part for batch in batches for part in plan(settings, labels, batch, changes, scale)]
    check_sizes([config for part in parts for config in part.configs])
    folder = folder or new_folder(f"study-{name}")
    check_unchanged(folder, parts)
    if listing:
        _list(folder, parts)
        _show(chosen, folder, write=False)
        return
    open_study(folder, chosen)

    def run(experiment: Experiment) -> None:
        run_with_progress(experiment, threads, side_by_side, engine=opened)
        _show(chosen, folder, quiet=True)

    try:
        with open_engine(engine, address, threads, side_by_side, shards) as opened:
            run_parts(folder, parts, run, console.print_message, threads or os.cpu_count() or 1)
    except (Interrupted, StorageError) as error:
        error.add_note(f"Continue with the same command and --out {folder}")
        raise
    except CoterieError:
        _show(chosen, folder)
        raise
    _show(chosen, folder)


def _list(folder: Path, parts: list[FolderPlan]) -> None:
    """Show the requested runs of each folder, and how many have finished."""
    from rich.table import Table

    from coterie.studies.run_study import unfinished_configs

    titles = ("folder", "settings", "preset", "rounds", "peers", "fetches", "strategies")
    table = Table(*titles, "finished")
    for part in parts:
        first = part.configs[0]
        labels = dict.fromkeys(config.label for config in part.configs)
        done = len(part.configs) - len(unfinished_configs(folder, part))
        table.add_row(
            part.folder_name,
            ", ".join(part.settings),
            first.preset,
            str(first.rounds),
            str(first.peers.count),
            _fetches(part),
            ", ".join(labels),
            f"{done} of {len(part.configs)}",
        )
    console.out.print(table)


def _fetches(part: FolderPlan) -> str:
    """Return the largest number of models that a strategy fetches per round."""
    options = [config.strategy_options() for config in part.configs]
    return str(max((each["fetches"] for each in options if "fetches" in each), default=0))


def _show(study: Study, folder: Path, *, write: bool = True, quiet: bool = False) -> None:
    """Print the tables unless `quiet`, and write all tables and results into the folder."""
    from coterie.reports.table_formats import render_console, render_markdown
    from coterie.storage.files import write_text
    from coterie.studies.run_study import tables_beside_published
    from coterie.studies.study_results import csv_text, read_results
    from coterie.studies.study_tables import TEST_RESULT, group_sheets, sheet

    problems: list[str] = []
    found = read_results(study, folder, problems)
    if not quiet:
        console.print_problems(problems)
        published = [each for each in study.settings if each.is_published]
        for table in tables_beside_published(folder, published):
            console.out.print(table)
        others = [each.name for each in study.settings if not each.is_published]
        for group in study.groups:
            mine = [each for each in found if each.group == group and each.setting in others]
            if mine:
                console.out.print(render_console(sheet(mine, group, TEST_RESULT)))
    if not write:
        return
    sheets = [each for group in study.groups for each in group_sheets(found, group)]
    title = f"# Study {study.name}\n\n{study.summary}.\n"
    write_text(folder / "study.md", "\n".join([title, *map(render_markdown, sheets)]))
    write_text(folder / "results.csv", csv_text(found))
    if quiet:
        return
    console.print_result(
        f"All tables are in {folder / 'study.md'}, and one row per run in {folder / 'results.csv'}"
    )
