"""`coterie sweep`: run and compare every combination of some settings."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli.console import print_message
from coterie.cli.options import (
    Address,
    Changes,
    DataRoot,
    Device,
    EngineName,
    FirstSeedOrOwn,
    Log,
    Out,
    Peers,
    Preset,
    Rounds,
    Scale,
    SeedsOrOwn,
    Shards,
    SideBySide,
    Strategies,
    StrategyFiles,
    Threads,
    Trainer,
    check_scalable,
    collect_changes,
    named_strategies,
    new_folder,
)
from coterie.cli.show_run import note_how_to_continue, open_engine, run_and_show
from coterie.cli.watch import Watch, show_live


def sweep(
    preset: Preset,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE,…",
            help="A setting and its values. Give it several times for all combinations.",
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
        bool,
        typer.Option("--select", help="Name the best setting of each strategy, by validation."),
    ] = False,
    data_root: DataRoot = None,
    folder: Out = None,
    trainer: Trainer = None,
    device: Device = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    engine: EngineName = "local",
    address: Address = None,
    shards: Shards = None,
    log: Log = None,
    live: Watch = False,
) -> None:
    """Vary settings: run every combination of values, and compare them."""
    from coterie.experiments import sweep_grid
    from coterie.experiments.config import check_sizes
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.experiment_file import SweepGrid
    from coterie.experiments.presets import find_preset
    from coterie.experiments.user_strategies import load_installed, load_strategies

    load_installed(print_message)
    own = load_strategies(strategy_file)
    chosen = find_preset(preset)
    labels = named_strategies(strategy) or chosen.labels_with(own)
    changes = collect_changes(rounds, peers, data_root, trainer, device, change)
    check_scalable(chosen.config, peers, scale)
    varied = sweep_grid.parse_vary(vary, changes)
    numbers = chosen.choose_seeds(seed, seeds)
    configs, names = sweep_grid.plan_sweep(chosen, labels, numbers, changes, varied, scale)
    check_sizes(configs)
    for note in chosen.describe_lowered_options(configs):
        print_message(note)
    grid = SweepGrid(varied=tuple(varied), changes=changes, scale=scale, select=select)
    folder = folder or new_folder(chosen.name)
    with (
        note_how_to_continue(folder),
        show_live(folder, live),
        open_engine(engine, address, threads, side_by_side, shards) as opened,
    ):
        experiment = Experiment.create(folder, configs, names, grid)
        run_and_show(experiment, chosen.name, threads, side_by_side, log, opened)
