"""The command line: coterie run, resume, list, data.

Exit codes: 0 done · 2 a setting cannot work · 3 data missing or damaged · 4 a file cannot be
written or read · 5 training diverged · 6 a strategy broke the rules · 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coterie.errors import ConfigError, CoterieError, Interrupted

if TYPE_CHECKING:
    from coterie.config import RunConfig
    from coterie.experiment import Experiment

app = typer.Typer(
    help="Personalised decentralised deep learning.",
    epilog="Exit codes: 0 done, 2 setting, 3 data, 4 storage, 5 training, 6 strategy, 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Where there is no terminal, such as in a file, lines may be as long as tables need.
out = Console(width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True)

DataRoot = Annotated[
    Path | None, typer.Option(help="Folder with local copies of datasets.", show_default=False)
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Peers trained at the same time; all cores when not given."),
]


def main() -> None:
    """Run the command line; errors for people become one message and an exit code."""
    signal.signal(signal.SIGINT, _stop)
    try:
        app()
    except CoterieError as error:
        notes = getattr(error, "__notes__", [])
        word = "" if isinstance(error, Interrupted) else "[bold red]Error:[/] "
        errors.print(f"{word}{escape(str(error))}", soft_wrap=True, highlight=False)
        for note in notes:
            errors.print(escape(note), soft_wrap=True, highlight=False)
        sys.exit(error.exit_code)


def _stop(number: int, frame: FrameType | None) -> None:
    """Answer Ctrl-C outside of rounds, where nothing has to be finished first."""
    raise Interrupted("Stopped by Ctrl-C.")


@app.command()
def run(
    preset: Annotated[str, typer.Argument(help="What to run; see `coterie list`.")] = "digits",
    strategy: Annotated[
        str | None,
        typer.Option(help="Strategies to compare, separated by commas.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, one run each.")] = 1,
    rounds: Annotated[
        int | None, typer.Option(min=0, help="Rounds after the initial training.")
    ] = None,
    peers: Annotated[int | None, typer.Option(help="How many peers.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, by its dotted key."),
    ] = None,
    data_root: DataRoot = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Output folder; a new one in runs/ when not given."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Run an experiment: several strategies on the same data, from the same start."""
    from coterie.config import parse_change
    from coterie.experiment import Experiment
    from coterie.presets import find_preset

    chosen = find_preset(preset)
    changes: dict[str, Any] = {}
    if rounds is not None:
        changes["rounds"] = rounds
    if peers is not None:
        changes["peers.count"] = peers
    if data_root is not None:
        changes["data.root"] = str(data_root)
    changes.update(parse_change(text) for text in change or [])
    if "seed" in changes:
        raise ConfigError("--set seed: choose seeds with --seed and --seeds instead.")
    for key in changes.keys() & {"strategy", "strategy.name"}:
        raise ConfigError(
            f"--set {key}: choose strategies with --strategy instead; --set strategy.OPTION=VALUE "
            "changes one option."
        )
    labels = [label.strip() for label in strategy.split(",")] if strategy else None
    configs = chosen.runs(labels, range(seed, seed + seeds), changes)
    _check_strategies(configs)
    experiment = Experiment.create(folder or _new_folder(preset), configs)
    _run_experiment(experiment, preset, threads)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`.")],
    threads: Threads = None,
) -> None:
    """Continue an experiment that was interrupted; the results are as if it never was."""
    from coterie.experiment import Experiment

    experiment = Experiment.open(folder)
    _run_experiment(experiment, experiment.runs[0].config.preset, threads)


@app.command(name="list")
def list_everything() -> None:
    """List presets, strategies, models and datasets."""
    from coterie.config import LINEAR
    from coterie.data.datasets import DATASETS
    from coterie.models.architectures import ARCHITECTURES
    from coterie.presets import PRESETS
    from coterie.strategies import STRATEGIES

    for title, rows in (
        ("presets", {name: preset.summary for name, preset in PRESETS.items()}),
        ("strategies", {name: strategy.summary for name, strategy in STRATEGIES.items()}),
        (
            "models",
            {
                name: f"{model.num_parameters:>10,} parameters: {model.summary}"
                for name, model in ARCHITECTURES.items()
            },
        ),
        (
            "datasets",
            {
                **{name: entry.title for name, entry in DATASETS.items()},
                LINEAR: "Linear regression on 10 features, made on the spot",
                "FILE.npz": "Your own: train_images, train_labels, test_images, test_labels",
            },
        ),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        for name, summary in rows.items():
            table.add_row(f"[bold]{name}[/]", summary)
        out.print(table)
        out.print()


@app.command()
def data(data_root: DataRoot = None) -> None:
    """Show which datasets are on this computer, and how to get the others."""
    from coterie.data.datasets import DATASETS, describe

    table = Table("dataset", "here", "where, or how to get it")
    for name in DATASETS:
        status = describe(name, data_root)
        there = "[green]yes[/]" if status.available else "[yellow]no[/]"
        table.add_row(name, there, status.where if status.available else status.how_to_get)
    out.print(table)


def _run_experiment(experiment: Experiment, preset: str, threads: int | None) -> None:
    from coterie.experiment import resume_command

    try:
        from coterie.progress import Display
        from coterie.reports.tables import final_table

        with Display(experiment, errors) as display:
            outcomes = experiment.run(
                threads=threads or os.cpu_count() or 1, on_round=display.show, tell=display.tell
            )
    except Interrupted as error:
        error.add_note(f"Continue with: {resume_command(experiment.folder)}")
        raise
    out.print(final_table(escape(preset), outcomes))
    where = f"Everything is in {experiment.folder}"
    out.print(where, soft_wrap=True, highlight=False, markup=False)


def _check_strategies(configs: list[RunConfig]) -> None:
    """Find out before anything is written that a strategy cannot work in this network."""
    from coterie.strategies import make_strategy

    for config in configs:
        strategy = make_strategy(config.strategy["name"], config.strategy_options())
        strategy.check(config.peers.count)


def _new_folder(preset: str) -> Path:
    base = Path("runs") / f"{preset}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


if __name__ == "__main__":
    main()
