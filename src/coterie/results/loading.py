"""Runs as objects for notebooks: their settings, their tables and their models.

`coterie.load_run("runs/mine/dac-seed0").metrics` is an Arrow table, which `.to_pandas()` turns into
a data frame; docs/run-folder.md says what the columns mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError
from torch import nn

from coterie.errors import ConfigError, StorageError, nearest
from coterie.experiments.config import RunConfig, build_model
from coterie.experiments.execution import MODELS, Run
from coterie.experiments.experiment import Experiment
from coterie.experiments.provenance import SOFTWARE, Start
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule
from coterie.results.analyses.over_runs import named
from coterie.results.final_table import Outcome
from coterie.results.run_group import FoundRun, gather
from coterie.runtime.run_tables import SCHEMAS
from coterie.storage.files import read_small
from coterie.storage.tensor_files import map_tensor


class LoadedRun:
    """One run, finished or not; tables are read when they are first asked for."""

    def __init__(self, found: FoundRun) -> None:
        self._found = found
        self._run = Run(found.recorded.folder, found.config)

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self._run.folder

    @property
    def config(self) -> RunConfig:
        """The full resolved configuration."""
        return self._run.config

    @property
    def label(self) -> str:
        """What the run is called in tables; in a sweep with what varies."""
        return self._found.label

    @property
    def seed(self) -> int:
        """What every random draw depended on."""
        return self._found.seed

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return self._found.finished is not None

    @property
    def last_round(self) -> int:
        """The last round that is recorded in full."""
        return self._found.recorded.last_round

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """What the true clusters are called, by their numbers in the tables."""
        return self._found.cluster_names

    @property
    def summary(self) -> Outcome:
        """What the run reached; while it has not finished, what it had at its last test."""
        return self._found.outcome

    @property
    def start(self) -> Start:
        """When the run was started, by which command and with which version of Coterie."""
        return self._found.start

    @cached_property
    def software(self) -> dict[str, str]:
        """The versions the results were made with."""
        path = self.folder / SOFTWARE
        try:
            return TypeAdapter(dict[str, str]).validate_json(read_small(path))
        except ValidationError:
            raise StorageError(f"{path} is damaged: expected the names of packages.") from None

    def table(self, name: str) -> pa.Table:
        """Return a table by its name; one that had nothing to record is empty."""
        if name not in SCHEMAS:
            raise ConfigError(f"There is no table '{name}'.{nearest(name, SCHEMAS)}")
        return self._found.recorded.table(name)

    @property
    def metrics(self) -> pa.Table:
        """Per round and peer: losses and accuracies before and after merging, tests, traffic."""
        return self.table("metrics")

    @property
    def exchanges(self) -> pa.Table:
        """Every model sent: round, receiver, sender, kind, bytes, delivered, merge weight."""
        return self.table("exchanges")

    @property
    def neighbours(self) -> pa.Table:
        """Per round and peer: how many models, and how much weight, from its true cluster."""
        return self.table("neighbours")

    @property
    def chosen_neighbours(self) -> pa.Table:
        """Per round and peer: its list of neighbours against its true cluster (PENS, PANM)."""
        return self.table("chosen_neighbours")

    @property
    def similarities(self) -> pa.Table:
        """Watched peers' true similarity to all others."""
        return self.table("similarities")

    @property
    def beliefs(self) -> pa.Table:
        """What peers believed about each other, in some rounds."""
        return self.table("beliefs")

    @property
    def arrivals(self) -> pa.Table:
        """Of real peers: every model that arrived, how old it was, and how long it took."""
        return self.table("arrivals")

    @property
    def listed_neighbours(self) -> pa.Table:
        """Of real peers: who was on whose list of neighbours (PENS, PANM)."""
        return self.table("listed_neighbours")

    @property
    def efforts(self) -> pa.Table:
        """Of real peers: how long each round took, trained and waited."""
        return self.table("efforts")

    @property
    def timings(self) -> pa.Table:
        """Wall and CPU seconds per round."""
        return self.table("timings")

    @cached_property
    def models(self) -> npt.NDArray[np.float32]:
        """Every peer's best model, (K, P): read-only, and in memory only as far as it is used."""
        path = self.folder / MODELS
        if not path.exists():
            raise StorageError(
                f"{self.folder} has no models: they are written when a run has finished. Finish it "
                "with coterie resume."
            )
        models = map_tensor(path, "best")
        if models.ndim != 2 or models.dtype != np.float32 or len(models) != self.config.peers.count:
            raise StorageError(
                f"{path} is damaged: expected a float32 model for each of "
                f"{self.config.peers.count} peers, found {models.dtype} {models.shape}."
            )
        return models

    @cached_property
    def layout(self) -> Layout:
        """Where each layer's weights lie in a model: the names, shapes and places of P values."""
        return Layout.of(self.build_model())

    def build_model(self) -> nn.Module:
        """Return a new module of the run's architecture, as it was built for the run's data."""
        return build_model(_without_weights(self.config), self._num_outputs())

    def load_into(self, module: nn.Module, peer: int) -> nn.Module:
        """Give a module the weights of a peer's best model, and return it."""
        FlatModule(module).load(np.array(self.models[peer]))
        return module

    def _num_outputs(self) -> int:
        """Return how many outputs make a model as long as these: each adds the same number."""
        config = _without_weights(self.config)
        one, two = (Layout.of(build_model(config, outputs)).size for outputs in (1, 2))
        outputs, rest = divmod(self.models.shape[1] - one, two - one)
        if rest or outputs < 0:
            raise StorageError(
                f"{self.folder / MODELS} is damaged: models of {self.models.shape[1]:,} values are "
                f"no '{config.model.name}' of any number of outputs."
            )
        return int(outputs) + 1

    def __repr__(self) -> str:
        measure, value = "test MSE", f"{self.summary.mean:.4g}"
        if self.summary.is_accuracy:
            measure, value = "test accuracy", f"{self.summary.mean:.1%}"
        state = "finished" if self.is_finished else "not finished"
        there = [name for name in SCHEMAS if _is_there(self.folder, name)]
        return (
            f"<run of {self.label} with seed {self.seed}, {self.config.preset}: "
            f"{self.config.peers.count} peers in {len(self.cluster_names)} clusters, "
            f"round {self.last_round} of {self.config.rounds}, {state}, {measure} {value}; "
            f"tables {', '.join(there)}; in {self.folder}>"
        )


class LoadedRuns(Sequence[LoadedRun]):
    """The runs of an output folder, in order."""

    def __init__(self, runs: Sequence[LoadedRun], problems: Sequence[str] = ()) -> None:
        self._runs = tuple(runs)
        self.problems = tuple(problems)
        """What was wrong with runs that are not among these."""

    @overload
    def __getitem__(self, place: int) -> LoadedRun: ...
    @overload
    def __getitem__(self, place: slice) -> LoadedRuns: ...
    def __getitem__(self, place: int | slice) -> LoadedRun | LoadedRuns:
        if isinstance(place, slice):
            return LoadedRuns(self._runs[place], self.problems)
        return self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[LoadedRun]:
        return iter(self._runs)

    def table(self, name: str) -> pa.Table:
        """Return a table of all runs, with the columns strategy and seed before the others."""
        return pa.concat_tables([named(run.label, run.seed, run.table(name)) for run in self])

    def __repr__(self) -> str:
        lines = [f"<{len(self)} runs>", *map(repr, self)]
        return "\n  ".join([*lines, *(f"problem: {each}" for each in self.problems)])


def load_run(path: str | os.PathLike[str]) -> LoadedRun:
    """Load one run by its folder, or by an output folder with a single run in it."""
    folder = Path(path).expanduser()
    runs = Experiment.open(folder).runs
    if len(runs) > 1:
        names = ", ".join(run.folder.name for run in runs[:3])
        raise ConfigError(
            f"{folder} holds {len(runs)} runs: {names}{', …' if len(runs) > 3 else ''}. Name one "
            "of these folders, or load them all with coterie.load_runs."
        )
    return load_runs(folder)[0]


def load_runs(*paths: str | os.PathLike[str]) -> LoadedRuns:
    """Load the runs of output folders; what cannot be read is left out and said in `problems`."""
    gathered = gather([Path(path).expanduser() for path in paths])
    return LoadedRuns([LoadedRun(found) for found in gathered.runs], gathered.problems)


def _without_weights(config: RunConfig) -> RunConfig:
    """Leave out what a model was initialised from, a file that need not be here any more."""
    return config.model_copy(update={"model": config.model.model_copy(update={"pretrained": None})})


def _is_there(folder: Path, name: str) -> bool:
    return (folder / f"{name}.parquet").exists() or (folder / name).exists()
