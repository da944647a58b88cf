"""The folder of one run: one class that everything reads a run through, finished or not.

RUN/config.yaml         the full resolved configuration
RUN/software.json       the versions the results were made with
RUN/started.json        when the run was started, and by which command
RUN/strategy.json       where the strategy is defined, if it is not one of Coterie's
RUN/clusters.json       the names of the true clusters, from the beginning of the run on
RUN/*.parquet           the tables (parts in folders of the same names meanwhile)
RUN/checkpoints/        the newest two checkpoints; deleted when the run has finished
RUN/models.safetensors  every peer's best model, when the run has finished
RUN/summary.json        what the run reached; its presence means the run has finished
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError
from torch import nn

from coterie.errors import ConfigError, StorageError, suggest
from coterie.experiments.config import RunConfig, build_model, to_yaml
from coterie.experiments.provenance import (
    SOFTWARE,
    UNKNOWN,
    Start,
    software_versions,
    write_start,
)
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_summary import RunSummary, summarise
from coterie.experiments.user_strategies import note_origin
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule
from coterie.runtime.run_tables import SCHEMAS
from coterie.storage.files import make_folder, read_small, write_text
from coterie.storage.tensor_files import map_tensor
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy

CONFIG, SUMMARY, MODELS = "config.yaml", "summary.json", "models.safetensors"
CLUSTERS = "clusters.json"


@dataclass(frozen=True, eq=False, repr=False)
class RunFolder:
    """One strategy with one seed; tables and models are read when they are first asked for."""

    folder: Path
    """Where the run lies."""
    config: RunConfig
    """The full resolved configuration."""
    label: str = ""
    """The name of the run in tables; in a sweep with the settings that vary."""
    cluster_names: tuple[str, ...] = ()
    """The names of the true clusters, by their numbers in the tables."""
    finished: RunSummary | None = None
    """What the run had reached when it was opened; None if it had not finished."""
    start: Start = UNKNOWN
    """When the run was started, by which command and with which version of Coterie."""
    tables: RecordedTables = field(default=None)  # type: ignore[assignment]
    """Reads the tables; by default from the folder."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """Results that were computed from the tables, for the next caller."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.config.label)
        tables = self.tables or RecordedTables(self.folder, self.num_peers)
        object.__setattr__(self, "tables", tables)

    def lay_out(self) -> None:
        """Make the folder of a run that is about to begin."""
        make_folder(self.folder)
        write_text(self.folder / CONFIG, to_yaml(self.config))
        note_origin(self.folder, self.config.strategy["name"])
        write_text(self.folder / SOFTWARE, json.dumps(software_versions(), indent=2))
        write_start(self.folder)

    def write_cluster_names(self, names: Sequence[str]) -> None:
        """Write the names of the true clusters."""
        write_text(self.folder / CLUSTERS, json.dumps(names))

    def read_summary(self) -> RunSummary | None:
        """Read what the run reached; None if it has not finished."""
        path = self.folder / SUMMARY
        if not path.exists():
            return None
        try:
            reached = TypeAdapter(RunSummary).validate_json(read_small(path))
            if len(reached.cluster_means) != len(reached.cluster_names):
                raise StorageError("There are not as many means as clusters.")
        except (StorageError, ValidationError):
            raise StorageError(
                f"{path} is damaged. Delete it and resume the run to write it again."
            ) from None
        return reached

    def read_cluster_names(self) -> tuple[str, ...]:
        """Read the names of the true clusters; nothing before the run has begun."""
        path = self.folder / CLUSTERS
        if not path.exists():
            return ()
        try:
            return TypeAdapter(tuple[str, ...]).validate_json(read_small(path))
        except (StorageError, ValidationError):
            raise StorageError(f"{path} is damaged; resume the run to write it again.") from None

    @property
    def seed(self) -> int:
        """What every random draw of the run depends on."""
        return self.config.seed

    @property
    def num_peers(self) -> int:
        """The number of peers, K."""
        return self.config.peers.count

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.finished is not None

    @property
    def last_round(self) -> int:
        """The last round that is recorded in full; −1 if there is none."""
        return self.tables.last_round

    @cached_property
    def is_accuracy(self) -> bool:
        """Whether the run classifies; otherwise its losses are squared errors."""
        if self.finished is not None:
            return self.finished.is_accuracy
        accuracies = self.metrics["validation_accuracy_trained"].to_numpy()
        return not np.isnan(accuracies).all()

    @property
    def is_told(self) -> bool:
        """Whether the strategy is told the true clusters, which no peer knows in practice."""
        kind = STRATEGIES.get(self.config.strategy["name"])
        return kind is not None and kind.uses_ground_truth

    @property
    def has_server(self) -> bool:
        """Whether the strategy needs a server, which peers do not have."""
        kind = STRATEGIES.get(self.config.strategy["name"])
        return kind is not None and issubclass(kind, ServerStrategy)

    @property
    def advantage(self) -> str:
        """What the strategy has that peers lack, which makes it a yardstick; else nothing."""
        told = ["told the true clusters"] * self.is_told
        return ", ".join([*told, *["needs a server"] * self.has_server])

    @cached_property
    def poisoned(self) -> tuple[int, ...]:
        """The peers that misbehave in some round; none of the results is theirs."""
        metrics = self.metrics
        found = pc.unique(metrics.filter(metrics["poisoned"])["peer"])
        return tuple(sorted(found.to_pylist()))

    @cached_property
    def last_tested(self) -> int:
        """The last round with a test; the very last round if there was none yet."""
        metrics = self.metrics
        tested = metrics.filter(pc.invert(pc.is_nan(metrics["test_loss"])))
        last: int = pc.max((tested if tested.num_rows else metrics)["round"]).as_py()
        return last

    @cached_property
    def summary(self) -> RunSummary:
        """What the run reached; while it has not finished, what it had at its last test."""
        if self.finished is not None:
            return replace(self.finished, label=self.label, cluster_names=self.cluster_names)
        return summarise(
            self.metrics.filter(pc.less_equal(self.metrics["round"], self.last_tested)),
            self.label,
            self.seed,
            self.cluster_names,
            is_accuracy=self.is_accuracy,
        )

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
            raise ConfigError(f"There is no table '{name}'.{suggest(name, SCHEMAS)}")
        return self.tables.table(name)

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


def _without_weights(config: RunConfig) -> RunConfig:
    """Leave out what a model was initialised from, a file that need not be here any more."""
    return config.model_copy(update={"model": config.model.model_copy(update={"pretrained": None})})


def _is_there(folder: Path, name: str) -> bool:
    return (folder / f"{name}.parquet").exists() or (folder / name).exists()
