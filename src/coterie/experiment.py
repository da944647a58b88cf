"""An experiment: several runs in one folder, each resumable on its own.

FOLDER/experiment.yaml         the names of the runs, in order
FOLDER/RUN/config.yaml         the full resolved configuration
FOLDER/RUN/software.json       the versions the results were made with
FOLDER/RUN/*.parquet           the tables (parts in folders of the same names meanwhile)
FOLDER/RUN/checkpoints/        the newest two checkpoints; deleted when the run has finished
FOLDER/RUN/models.safetensors  every peer's best model, when the run has finished
FOLDER/RUN/summary.json        what the run reached; its presence means the run has finished
"""

from __future__ import annotations

import json
import platform
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import yaml
from pydantic import TypeAdapter, ValidationError

from coterie.config import (
    RunConfig,
    build_model,
    make_scenario,
    read_yaml,
    scenario_key,
    to_yaml,
)
from coterie.data.scenario import Scenario
from coterie.errors import ConfigError, StorageError
from coterie.reports.tables import Outcome, outcome
from coterie.simulation.checkpoint import Checkpoints
from coterie.simulation.recorder import Recorder
from coterie.simulation.round import Round
from coterie.simulation.run import Tell, run_to_end
from coterie.simulation.simulator import Simulation
from coterie.storage import explained, locked, make_folder, write_atomically, write_text
from coterie.strategies import make_strategy
from coterie.tensors import write_tensors

EXPERIMENT, CONFIG, SUMMARY = "experiment.yaml", "config.yaml", "summary.json"
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
OnRound = Callable[["Run", Round], None]


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
            return TypeAdapter(Outcome).validate_json(path.read_bytes())
        except (OSError, ValidationError):
            raise StorageError(
                f"{path} is damaged. Delete it and resume the run to write it again."
            ) from None


class Experiment:
    """The runs of one folder."""

    def __init__(self, folder: Path, runs: Sequence[Run]) -> None:
        self.folder = folder
        self.runs = list(runs)
        self._scenario: tuple[str, Scenario] | None = None

    @classmethod
    def create(cls, folder: Path, configs: Sequence[RunConfig]) -> Experiment:
        """Lay out a new experiment; a folder that holds anything already is refused."""
        _check_unused(folder)
        runs = [Run(folder / f"{c.label}-seed{c.seed}", c) for c in configs]
        for name, count in Counter(run.folder.name for run in runs).items():
            if count > 1:
                raise ConfigError(f"The run {name} is asked for {count} times; name it once.")
        experiment = cls(folder, runs)
        # A mistake in the data or the model is found here, before there is a folder to resume.
        build_model(configs[0], experiment._scenario_of(configs[0]).num_outputs)
        make_folder(folder)
        for run in runs:
            make_folder(run.folder)
            write_text(run.folder / CONFIG, to_yaml(run.config))
            write_text(run.folder / "software.json", json.dumps(software_versions(), indent=2))
        names = [run.folder.name for run in runs]
        write_text(folder / EXPERIMENT, yaml.safe_dump({"runs": names}))
        return experiment

    @classmethod
    def open(cls, folder: Path) -> Experiment:
        """Open an experiment, or a single run of one."""
        path = folder / EXPERIMENT
        with explained(f"open {folder}"):
            if not folder.exists():
                raise StorageError(f"There is no folder {folder}.")
            if (folder / CONFIG).exists():
                return cls(folder, [Run(folder, read_yaml(folder / CONFIG))])
            if not path.exists():
                raise StorageError(
                    f"{folder} is not the folder of a run: it has neither {EXPERIMENT} nor "
                    f"{CONFIG}."
                )
        names = _read_names(path)
        return cls(folder, [Run(folder / n, read_yaml(folder / n / CONFIG)) for n in names])

    def run(
        self, *, threads: int, on_round: OnRound | None = None, tell: Tell = print
    ) -> list[Outcome]:
        """Run, or resume, everything that has not finished; return what every run reached."""
        for run in self.runs:
            with locked(run.folder):
                if run.outcome is None:
                    self._run_one(run, threads, on_round, tell)
        return [reached for run in self.runs if (reached := run.outcome) is not None]

    def _run_one(self, run: Run, threads: int, on_round: OnRound | None, tell: Tell) -> None:
        config = run.config
        scenario = self._scenario_of(config)
        recorder = Recorder(run.folder)
        with Simulation(
            scenario,
            lambda: build_model(config, scenario.num_outputs),
            lambda: make_strategy(config.strategy["name"], config.strategy_options()),
            config,
            threads=threads,
        ) as simulation:
            try:
                run_to_end(
                    simulation,
                    recorder,
                    Checkpoints(run.folder / "checkpoints"),
                    checkpoint_every=config.checkpoint_every,
                    on_round=(lambda now: on_round(run, now)) if on_round else None,
                    tell=tell,
                )
                self._finish(run, recorder, simulation)
            except StorageError as error:
                # What was wrong before the first round would be wrong again.
                if simulation.next_round > 0:
                    error.add_note(f"Continue with: {resume_command(self.folder)}")
                raise

    def _finish(self, run: Run, recorder: Recorder, simulation: Simulation) -> None:
        """Keep the best models, sum up, and drop the checkpoints, in this order."""
        write_atomically(run.folder, lambda file: _write_models(file, simulation))
        reached = outcome(
            recorder.table("metrics"),
            run.config.label,
            run.config.seed,
            simulation.world.cluster_names,
            is_accuracy=simulation.world.is_classification,
        )
        write_text(run.folder / SUMMARY, json.dumps(asdict(reached), indent=2))
        with explained(f"remove the checkpoints of {run.folder}"):
            shutil.rmtree(run.folder / "checkpoints")

    def _scenario_of(self, config: RunConfig) -> Scenario:
        """Return the data of a run; the same as the last run's are not made anew."""
        key = scenario_key(config)
        if self._scenario is None or self._scenario[0] != key:
            self._scenario = None  # free the old one before the new one is made
            self._scenario = (key, make_scenario(config))
        return self._scenario[1]


def resume_command(folder: Path) -> str:
    """Return what to type to continue an experiment."""
    return shlex.join(["coterie", "resume", str(folder)])


def _check_unused(folder: Path) -> None:
    """Refuse an output folder that would be mixed up with what is there."""
    with explained(f"use {folder} as output folder"):
        if not folder.exists():
            return
        if not folder.is_dir():
            hint = "It is a file"
        elif (folder / EXPERIMENT).exists() or (folder / CONFIG).exists():
            hint = "It holds another run"
        elif any(folder.iterdir()):
            hint = "It is not empty"
        else:
            return
    message = f"Cannot use {folder} as output folder. {hint}; choose another with --out."
    if hint == "It holds another run":
        message += f" Or continue that one with: {resume_command(folder)}"
    raise StorageError(message)


def _read_names(path: Path) -> list[str]:
    """Return the names of the runs an experiment lists."""
    try:
        with explained(f"read {path}"):
            names = yaml.safe_load(path.read_text())["runs"]
        if not (isinstance(names, list) and names and all(isinstance(n, str) for n in names)):
            raise ValueError
    except (ValueError, KeyError, TypeError, yaml.YAMLError):
        raise StorageError(
            f"{path} is damaged: expected 'runs:' and the names of the run folders. The runs "
            "themselves can still be resumed one by one, by their folders."
        ) from None
    if any(name in ("", "..") or Path(name).name != name for name in names):
        raise StorageError(f"{path} names a run outside its folder.")
    return names


def software_versions() -> dict[str, str]:
    """Return the versions of everything that can change results."""
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **versions}


def _write_models(file: BinaryIO, simulation: Simulation) -> str:
    write_tensors(file, {"best": simulation.state.best}, {})
    return "models.safetensors"
