"""`coterie resume`: continue an interrupted experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import print_message
from coterie.cli.options import (
    Address,
    EngineName,
    Log,
    Model,
    OwnTask,
    Shards,
    SideBySide,
    StrategyFiles,
    Threads,
)
from coterie.cli.show_run import note_how_to_continue, open_engine, run_and_show
from coterie.cli.swarm import run_swarm
from coterie.cli.watch import Watch, show_live
from coterie.errors import ConfigError


def resume(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`.")],
    strategy_file: StrategyFiles = None,
    model: Model = None,
    task: OwnTask = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    engine: EngineName = "local",
    address: Address = None,
    shards: Shards = None,
    log: Log = None,
    live: Watch = False,
) -> None:
    """Continue an interrupted experiment, with the same results as without the interruption."""
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.user_models import load_model
    from coterie.experiments.user_strategies import load_installed, load_strategies
    from coterie.experiments.user_tasks import load_task

    load_installed(print_message)
    if model:
        load_model(model)
    if task:
        load_task(task)
    load_strategies(strategy_file)
    with note_how_to_continue(folder), show_live(folder, live):
        experiment = Experiment.open(folder)
        config = experiment.runs[0].config
        if config.runtime == "network":
            if engine != "local":
                raise ConfigError(
                    f"{folder} holds runs of real peers, which cannot run with --engine {engine}."
                )
            run_swarm(experiment)
            return
        with open_engine(engine, address, threads, side_by_side, shards) as opened:
            run_and_show(experiment, config.preset, threads, side_by_side, log, opened)
