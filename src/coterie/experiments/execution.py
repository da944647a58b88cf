"""One run in its folder: executed, or continued, until it has been summed up.

RUN/config.yaml         the full resolved configuration
RUN/software.json       the versions the results were made with
RUN/started.json        when the run was started, and by which command
RUN/strategy.json       where the strategy is defined, if it is not one of Coterie's
RUN/clusters.json       what the true clusters are called, from the beginning of the run on
RUN/*.parquet           the tables (parts in folders of the same names meanwhile)
RUN/checkpoints/        the newest two checkpoints; deleted when the run has finished
RUN/models.safetensors  every peer's best model, when the run has finished
RUN/summary.json        what the run reached; its presence means the run has finished
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from coterie.data.scenario import Scenario
from coterie.errors import Interrupted, StorageError
from coterie.experiments.config import RunConfig, build_model, to_yaml
from coterie.experiments.provenance import SOFTWARE, write_start
from coterie.experiments.user_strategies import note_origin
from coterie.learning.choice import Tell
from coterie.results.final_table import Outcome, outcome
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.simulation.result_warnings import concerns
from coterie.simulation.simulation import Simulation
from coterie.storage.files import (
    explained,
    locked,
    make_folder,
    read_small,
    write_atomically,
    write_text,
)
from coterie.storage.tensor_files import write_tensors
from coterie.strategies import make_strategy

CONFIG, SUMMARY, MODELS = "config.yaml", "summary.json", "models.safetensors"
CLUSTERS = "clusters.json"
PACKAGES = (
    "coterie",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "safetensors",
    "pillow",
)


@dataclass(frozen=True)
class Glimpse:
    """What is shown of a finished round while a run goes on; NaN: not measured."""

    round: int
    validation_accuracy: float
    validation_loss: float


@dataclass(frozen=True)
class Run:
    """One strategy with one seed."""

    folder: Path
    config: RunConfig

    @property
    def outcome(self) -> Outcome | None:
        """What the run reached, or None if it has not finished."""
        path = self.folder / SUMMARY
        if not path.exists():
            return None
        try:
            reached = TypeAdapter(Outcome).validate_json(read_small(path))
            if len(reached.cluster_means) != len(reached.cluster_names):
                raise StorageError("There are not as many means as clusters.")
        except (StorageError, ValidationError):
            raise StorageError(
                f"{path} is damaged. Delete it and resume the run to write it again."
            ) from None
        return reached

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """What the true clusters are called; nothing before the run has begun."""
        path = self.folder / CLUSTERS
        if not path.exists():
            return ()
        try:
            return TypeAdapter(tuple[str, ...]).validate_json(read_small(path))
        except (StorageError, ValidationError):
            raise StorageError(f"{path} is damaged; resume the run to write it again.") from None

    def lay_out(self) -> None:
        """Make the folder of a run that is about to begin."""
        make_folder(self.folder)
        write_text(self.folder / CONFIG, to_yaml(self.config))
        note_origin(self.folder, self.config.strategy["name"])
        write_text(self.folder / SOFTWARE, json.dumps(software_versions(), indent=2))
        write_start(self.folder)


def execute(
    run: Run,
    scenario: Callable[[], Scenario],
    *,
    threads: int,
    on_round: Callable[[Glimpse], None] | None = None,
    tell: Tell = print,
    asked_to_stop: Callable[[], bool] | None = None,
    how_to_continue: str,
) -> None:
    """Run, or resume, one run, unless it has finished.

    After Ctrl-C in its last round it is finished, and then an `Interrupted` says so: there may be
    other runs to come. Whoever gives `asked_to_stop` knows it.
    """
    with locked(run.folder):
        if run.outcome is not None:
            return
        config, world = run.config, scenario()
        write_text(run.folder / CLUSTERS, json.dumps(world.cluster_names))
        recorder = Recorder(run.folder)
        with Simulation(
            world,
            lambda: build_model(config, world.num_outputs),
            lambda: make_strategy(config.strategy["name"], config.strategy_options()),
            config,
            threads=threads,
            tell=tell,
        ) as simulation:
            try:
                was_asked = run_to_end(
                    simulation,
                    recorder,
                    Checkpoints(run.folder / "checkpoints"),
                    checkpoint_every=config.checkpoint_every,
                    on_round=(lambda now: on_round(_glimpse(now))) if on_round else None,
                    tell=tell,
                    asked_to_stop=asked_to_stop,
                )
                finish(run, recorder, simulation)
                if was_asked and asked_to_stop is None:
                    raise Interrupted(f"Stopped; {run.folder.name} has finished.")
            except StorageError as error:
                # What was wrong before the first round would be wrong again.
                if simulation.next_round > 0:
                    error.add_note(how_to_continue)
                raise


def software_versions() -> dict[str, str]:
    """Return the versions of everything that can change results."""
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **versions}


def finish(run: Run, recorder: Recorder, simulation: Simulation) -> None:
    """Keep the best models, sum up, and drop the checkpoints, in this order."""
    write_atomically(run.folder, lambda file: _write_models(file, simulation))
    is_accuracy = simulation.world.is_classification
    tested = outcome(
        recorder.table("metrics"),
        run.config.label,
        run.config.seed,
        simulation.world.cluster_names,
        is_accuracy=is_accuracy,
    )
    losses, accuracies = simulation.state.validate_best()
    honest = (accuracies if is_accuracy else losses)[~simulation.state.poisoning.peers]
    reached = replace(
        tested,
        validation=float(honest.mean()),
        warnings=concerns(simulation, recorder.table("metrics")),
    )
    write_text(run.folder / SUMMARY, json.dumps(asdict(reached), indent=2))
    with explained(f"remove the checkpoints of {run.folder}"):
        if (run.folder / "checkpoints").exists():  # real peers have their own
            shutil.rmtree(run.folder / "checkpoints")


def _write_models(file: BinaryIO, simulation: Simulation) -> str:
    write_tensors(file, {"best": simulation.state.best}, {})
    return MODELS


def _glimpse(now: Round) -> Glimpse:
    return Glimpse(
        now.number,
        _known_mean(now.measures["validation_accuracy_trained"]),
        _known_mean(now.measures["validation_loss_trained"]),
    )


def _known_mean(values: npt.NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
