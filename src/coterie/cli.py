"""The command line: coterie run, swarm, sweep, study, resume, analyse, list, data, bench.

Exit codes: 0 done · 2 a setting cannot work · 3 data missing or damaged · 4 a file cannot be
written or read · 5 training diverged · 6 a strategy broke the rules · 130 stopped by Ctrl-C,
SIGTERM or SIGHUP.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from coterie import __version__
from coterie.benchmarking.command import bench
from coterie.comparing.command import compare
from coterie.comparing.papers_command import papers
from coterie.consoles import errors, out, tell_notes
from coterie.errors import ConfigError, CoterieError, Interrupted
from coterie.exporting.command import export
from coterie.figures.command import figures
from coterie.options import (
    Changes,
    DataRoot,
    Device,
    FirstSeedOrOwn,
    KeepPeers,
    Out,
    OwnPace,
    PeerNetwork,
    Peers,
    Preset,
    Rounds,
    Scale,
    SeedsOrOwn,
    SideBySide,
    Strategies,
    StrategyFiles,
    Threads,
    Trainer,
    changed_settings,
    named_strategies,
    new_folder,
)
from coterie.pages.command import report
from coterie.peer.command import app as peer
from coterie.showing import continuable, results_shown, run_shown
from coterie.signals import interrupted_by_signals
from coterie.slips import UsageError, understood
from coterie.studies.command import study
from coterie.watching.command import Watch, watch, watched

if TYPE_CHECKING:
    from coterie.experiment import Experiment

app = typer.Typer(
    help="Personalised decentralised deep learning.",
    epilog="Exit codes: 0 done, 2 setting, 3 data, 4 storage, 5 training, 6 strategy, 130 Ctrl-C,"
    " SIGTERM or SIGHUP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(bench)
app.command()(compare)
app.command()(export)
app.command()(figures)
app.command()(papers)
app.command()(report)
app.command()(study)
app.command()(watch)
app.add_typer(peer, name="peer")


def main() -> None:
    """Run the command line; errors for people become one message and an exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Names of folders need not be text, and not every terminal has all letters.
        sys.stdout.reconfigure(errors="backslashreplace")
    with interrupted_by_signals():
        try:
            _answer()
        except (CoterieError, Interrupted) as error:
            with suppress(OSError):  # a closed terminal takes no message
                _show(error)
            sys.exit(error.exit_code)


def _answer() -> None:
    """Do what was asked; exit with another code than 0 where a command says so."""
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        raise Interrupted("Stopped.") from None
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(str(error), err=True)
            sys.exit(ConfigError.exit_code)
        raise understood(error) from None
    if code:
        sys.exit(code)


def _show(error: CoterieError | Interrupted) -> None:
    word = "" if isinstance(error, Interrupted) else "[bold red]Error:[/] "
    errors.print(f"{word}{escape(str(error))}", soft_wrap=True, highlight=False)
    for note in getattr(error, "__notes__", []):
        errors.print(escape(note), soft_wrap=True, highlight=False)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"coterie {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Stand before all commands, with the options that need none."""


@app.command()
def run(
    preset: Preset = "digits",
    strategy: Strategies = None,
    strategy_file: StrategyFiles = None,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    peers: Peers = None,
    scale: Scale = 1.0,
    change: Changes = None,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    live: Watch = False,
) -> None:
    """Run an experiment: several strategies on the same data, from the same start."""
    from coterie.config import check_sizes
    from coterie.experiment import Experiment
    from coterie.own_strategies import load_strategies
    from coterie.presets import find_preset

    own = load_strategies(strategy_file)
    chosen = find_preset(preset)
    changes = changed_settings(rounds, peers, data_root, trainer, device, change)
    labels = named_strategies(strategy) or chosen.labels_with(own)
    configs = chosen.runs(labels, chosen.numbers(seed, seeds), changes, scale=scale)
    if any(config.runtime == "network" for config in configs):
        raise ConfigError(f"Real peers run {preset}: coterie swarm --preset {preset}")
    check_sizes(configs)
    tell_notes(chosen.notes(configs))
    folder = folder or new_folder(chosen.name)
    with continuable(folder), watched(folder, live):
        experiment = Experiment.create(folder, configs)
        run_shown(experiment, chosen.name, threads, side_by_side)


@app.command()
def swarm(
    preset: Annotated[str, typer.Option(help="What to run; see `coterie list`.")] = "digits",
    strategy: Strategies = "kin",
    peers: Peers = 8,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    scale: Scale = 1.0,
    change: Changes = None,
    network: PeerNetwork = None,
    own_pace: OwnPace = False,
    keep_peers: KeepPeers = False,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    live: Watch = False,
) -> None:
    """Run an experiment by real peers: processes of this computer, over an encrypted network."""
    from coterie.config import check_sizes
    from coterie.experiment import Experiment
    from coterie.presets import find_preset
    from coterie.swarm.suitability import all_for_real_peers

    chosen = find_preset(preset)
    changes = changed_settings(rounds, peers, data_root, trainer, device, change)
    numbers = chosen.numbers(seed, seeds)
    configs = chosen.runs(named_strategies(strategy), numbers, changes, scale=scale)
    configs, notes = all_for_real_peers(configs, network, own_pace=own_pace)
    check_sizes(configs)
    tell_notes([*chosen.notes(configs), *notes])
    folder = folder or new_folder(f"{chosen.name}-swarm")
    with continuable(folder), watched(folder, live):
        experiment = Experiment.create(folder, configs)
        _run_swarm(experiment, keep_peers=keep_peers)


@app.command()
def sweep(
    preset: Preset,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE,…",
            help="A setting and its values; several make all combinations.",
            show_default=False,
        ),
    ],
    strategy: Strategies = None,
    strategy_file: StrategyFiles = None,
    seed: FirstSeedOrOwn = None,
    seeds: SeedsOrOwn = None,
    rounds: Rounds = None,
    peers: Peers = None,
    change: Changes = None,
    scale: Scale = 1.0,
    select: Annotated[
        bool, typer.Option("--select", help="Name each strategy's best setting, by validation.")
    ] = False,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    live: Watch = False,
) -> None:
    """Vary settings: run every combination of values, and compare them."""
    from coterie import sweep as sweeps
    from coterie.config import check_sizes
    from coterie.experiment import Experiment, Grid
    from coterie.own_strategies import load_strategies
    from coterie.presets import find_preset

    own = load_strategies(strategy_file)
    chosen = find_preset(preset)
    labels = named_strategies(strategy) or chosen.labels_with(own)
    changes = changed_settings(rounds, peers, data_root, trainer, device, change)
    varied = sweeps.parse_vary(vary, changes)
    numbers = chosen.numbers(seed, seeds)
    configs, names = sweeps.grid(chosen, labels, numbers, changes, varied, scale)
    check_sizes(configs)
    tell_notes(chosen.notes(configs))
    grid = Grid(varied=tuple(varied), changes=changes, scale=scale, select=select)
    folder = folder or new_folder(chosen.name)
    with continuable(folder), watched(folder, live):
        experiment = Experiment.create(folder, configs, names, grid)
        run_shown(experiment, chosen.name, threads, side_by_side)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`.")],
    strategy_file: StrategyFiles = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    live: Watch = False,
) -> None:
    """Continue an experiment that was interrupted; the results are as if it never was."""
    from coterie.experiment import Experiment
    from coterie.own_strategies import load_strategies

    load_strategies(strategy_file)
    with continuable(folder), watched(folder, live):
        experiment = Experiment.open(folder)
        config = experiment.runs[0].config
        if config.runtime == "network":
            _run_swarm(experiment)
        else:
            run_shown(experiment, config.preset, threads, side_by_side)


@app.command()
def analyse(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`, or one run.")],
    only: Annotated[
        str | None,
        typer.Option(help="Some analyses, separated by commas; see docs/analyses.md."),
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Rounds that means are taken over.")] = 10,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where tables go; FOLDER/analyses when not given."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of Parquet.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summaries as JSON instead of tables.")
    ] = False,
) -> None:
    """Say who found whom, what merging did and how fast shifts were overcome."""
    from coterie.analyses import study
    from coterie.experiment import Experiment
    from coterie.gathering import recorded_runs

    analyses = study.choose(only)
    results, missing = study.study(recorded_runs(Experiment.open(folder)), analyses, window)
    if only and missing:
        reasons = [f"{analysis.name}: {analysis.missing}" for analysis in missing]
        raise ConfigError(f"Cannot analyse {folder}.\n" + "\n".join(reasons))
    target = target or folder / "analyses"
    study.save(results, target, as_csv=as_csv)
    if as_json:
        typer.echo(study.as_json(results))
        return
    for result in results:
        out.print(study.console_table(result))
    for analysis in missing:
        out.print(f"{analysis.name}: {analysis.missing}", style="dim", highlight=False)
    out.print(f"All rounds are in {target}", soft_wrap=True, highlight=False, markup=False)


@app.command(name="list")
def list_everything() -> None:
    """List presets, studies, strategies, models and datasets."""
    from coterie.config import LINEAR
    from coterie.data.datasets import DATASETS
    from coterie.models.architectures import ARCHITECTURES
    from coterie.presets import PRESETS
    from coterie.strategies import STRATEGIES
    from coterie.studies.catalogue import STUDIES

    for title, rows in (
        ("presets", {name: preset.summary for name, preset in PRESETS.items()}),
        ("studies", {name: each.summary for name, each in STUDIES.items()}),
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


def _run_swarm(experiment: Experiment, *, keep_peers: bool = False) -> None:
    from coterie.swarm.display import Display
    from coterie.swarm.running import execute_by_peers

    preset = experiment.runs[0].config.preset
    with results_shown(experiment, preset), Display(experiment.runs, errors) as display:
        execute = partial(execute_by_peers, show=display.show, keep_peers=keep_peers)
        experiment.run(threads=1, on_end=display.end, tell=display.tell, execute=execute)


if __name__ == "__main__":
    main()
