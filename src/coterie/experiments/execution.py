"""Runs or resumes one run until its folder has a summary."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Protocol

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import Interrupted, StorageError
from coterie.experiments.config import RunConfig, build_model
from coterie.experiments.run_folder import SUMMARY, RunFolder
from coterie.experiments.run_summary import mean_metrics, summarise
from coterie.experiments.saved_models import write_models
from coterie.learning.trainer_choice import Tell
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.round_metrics import RoundMetrics, measure_round
from coterie.simulation.any_simulation import AnySimulation
from coterie.simulation.result_warnings import find_warnings
from coterie.simulation.simulation import Simulation
from coterie.storage.files import (
    explain_errors,
    lock_folder,
    write_text,
)
from coterie.strategies import make_strategy
from coterie.tasks import TaskScore


class OpenSimulation(Protocol):
    """Returns the simulation of a run, before its first round."""

    def __call__(
        self, config: RunConfig, datasets: PeerDatasets, *, threads: int, tell: Tell
    ) -> AbstractContextManager[AnySimulation]:
        """Open the simulation."""


def execute(
    run: RunFolder,
    scenario: Callable[[], PeerDatasets],
    *,
    threads: int,
    on_round: Callable[[RoundMetrics], None] | None = None,
    tell: Tell = print,
    asked_to_stop: Callable[[], bool] | None = None,
    how_to_continue: str,
    open_simulation: OpenSimulation | None = None,
) -> None:
    """Run, or resume, one run, unless it has finished; by default in this process.

    After Ctrl-C in the last round the run is finished first, and then `Interrupted` is raised, so
    that no other run starts. With `asked_to_stop`, which the caller can check, it is not raised.
    """
    with lock_folder(run.folder):
        if run.read_summary() is not None:
            return
        config, world = run.config, scenario()
        run.write_cluster_names(world.cluster_names)
        run.write_peer_names(world.peer_names)
        run.write_score(world.task.score)
        recorder = Recorder(run.folder)
        open_simulation = open_simulation or simulation_of
        with open_simulation(config, world, threads=threads, tell=tell) as simulation:
            try:
                was_asked = run_to_end(
                    simulation,
                    recorder,
                    Checkpoints(run.folder / "checkpoints"),
                    checkpoint_every=config.checkpoint_every,
                    on_round=_listener(on_round, world.task.score),
                    tell=tell,
                    asked_to_stop=asked_to_stop,
                )
                finish(run, recorder, simulation)
                if was_asked and asked_to_stop is None:
                    raise Interrupted(f"Stopped. {run.folder.name} has finished.")
            except StorageError as error:
                # An error before the first round would come again.
                if simulation.next_round > 0:
                    error.add_note(how_to_continue)
                raise


def simulation_of(
    config: RunConfig, datasets: PeerDatasets, *, threads: int = 1, tell: Tell = print
) -> Simulation:
    """Return the simulation of a run, before its first round."""
    return Simulation(
        datasets,
        lambda: build_model(config, datasets.num_outputs),
        lambda: make_strategy(config.strategy["name"], config.strategy_options()),
        config,
        threads=threads,
        tell=tell,
    )


def finish(run: RunFolder, recorder: Recorder, simulation: AnySimulation) -> None:
    """Write the best models, then the summary, then delete the checkpoints."""
    write_models(run.folder, simulation.best_models(), simulation.frozen_digest)
    tested = summarise(
        recorder.table("metrics"),
        run.config.label,
        run.config.seed,
        simulation.datasets.cluster_names,
        simulation.datasets.task.score,
    )
    _, scores = simulation.validate_best()
    honest = scores[~simulation.poisoned]
    summary = replace(
        tested,
        validation=float(honest.mean()),
        metrics=mean_metrics(recorder.table("test_metrics"), simulation.datasets.task),
        warnings=find_warnings(simulation, recorder.table("metrics")),
    )
    write_text(run.folder / SUMMARY, json.dumps(asdict(summary), indent=2))
    with explain_errors(f"remove the checkpoints of {run.folder}"):
        if (run.folder / "checkpoints").exists():  # of real peers, each keeps its own
            shutil.rmtree(run.folder / "checkpoints")


def _listener(
    on_round: Callable[[RoundMetrics], None] | None, score: TaskScore
) -> Callable[[Round], None] | None:
    return None if on_round is None else lambda now: on_round(measure_round(now, score))
