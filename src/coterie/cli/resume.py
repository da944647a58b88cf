"""`coterie resume`: continues an experiment that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import SideBySide, StrategyFiles, Threads
from coterie.cli.show_run import continuable, run_shown
from coterie.cli.swarm import run_swarm
from coterie.cli.watch import Watch, watched


def resume(
    folder: Annotated[Path, typer.Argument(help="The output folder of `coterie run`.")],
    strategy_file: StrategyFiles = None,
    threads: Threads = None,
    side_by_side: SideBySide = None,
    live: Watch = False,
) -> None:
    """Continue an experiment that was interrupted; the results are as if it never was."""
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.user_strategies import load_strategies

    load_strategies(strategy_file)
    with continuable(folder), watched(folder, live):
        experiment = Experiment.open(folder)
        config = experiment.runs[0].config
        if config.runtime == "network":
            run_swarm(experiment)
        else:
            run_shown(experiment, config.preset, threads, side_by_side)
