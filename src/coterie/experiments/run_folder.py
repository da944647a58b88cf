"""The folder of one run: the class `RunFolder` reads all of it, finished or not.

RUN/config.yaml         the full resolved configuration
RUN/software.json       the versions of the software
RUN/started.json        the time and the command of the start
RUN/strategy.json       the file of the strategy, if it is not one of Coterie's
RUN/model.json          the file of the model, if it is not one of Coterie's
RUN/task.json           the file of the task, if it is the user's own
RUN/clusters.json       the names of the true clusters
RUN/peers.json          the names of the peers, if a file names them
RUN/score.json          what is measured, such as accuracy
RUN/*.parquet           the tables (in parts, in folders of the same names, until it has finished)
RUN/checkpoints/        the newest two checkpoints, until it has finished
RUN/models.safetensors  every peer's best model, when it has finished
RUN/summary.json        the results; the run has finished if this file exists
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
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
from coterie.experiments.config import CONFIG, LINEAR, RunConfig, build_model, config_to_yaml
from coterie.experiments.provenance import (
    SOFTWARE,
    UNKNOWN_START,
    RunStart,
    software_versions,
    write_start,
)
from coterie.experiments.recorded_tables import RecordedTables
from coterie.experiments.run_summary import RunSummary, summarise
from coterie.experiments.saved_models import MODELS, load_best_model, warn_of_other_backbone
from coterie.experiments.user_models import USER_MODELS
from coterie.experiments.user_strategies import write_origin
from coterie.experiments.user_tasks import USER_TASKS
from coterie.models.frozen_part import FrozenPart
from coterie.models.layout import Layout
from coterie.runtime.run_tables import SCHEMAS
from coterie.storage.files import make_folder, read_small, write_text
from coterie.storage.tensor_files import map_tensor, read_metadata
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.tasks.score import ACCURACY, MSE, TaskScore

SUMMARY = "summary.json"
CLUSTERS, SCORE, PEERS = "clusters.json", "score.json", "peers.json"


@dataclass(frozen=True, eq=False, repr=False)
class RunFolder:
    """One strategy with one seed; tables and models are read at their first use."""

    folder: Path
    """The path of the folder."""
    config: RunConfig
    """The full resolved configuration."""
    label: str = ""
    """The name of the run in tables; in a sweep with the settings that vary."""
    cluster_names: tuple[str, ...] = ()
    """The names of the true clusters, by their numbers in the tables."""
    finished: RunSummary | None = None
    """The summary when the folder was opened; None if the run had not finished."""
    start: RunStart = UNKNOWN_START
    """When and how the run was started."""
    tables: RecordedTables = field(default=None)  # type: ignore[assignment]
    """Reads the tables, by default from the folder."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """Results that callers have computed from the tables."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.config.label)
        tables = self.tables or RecordedTables(self.folder, self.num_peers)
        object.__setattr__(self, "tables", tables)

    def create_folder(self) -> None:
        """Create the folder of a new run."""
        make_folder(self.folder)
        write_text(self.folder / CONFIG, config_to_yaml(self.config))
        write_origin(self.folder, self.config.strategy["name"])
        USER_MODELS.write_origin(self.folder, self.config.model.name)
        USER_TASKS.write_origin(self.folder, self.config.task.file)
        write_text(self.folder / SOFTWARE, json.dumps(software_versions(), indent=2))
        write_start(self.folder)

    def write_cluster_names(self, names: Sequence[str]) -> None:
        """Write the names of the true clusters."""
        write_text(self.folder / CLUSTERS, json.dumps(names))

    def write_peer_names(self, names: Sequence[str]) -> None:
        """Write the names of the peers, if they have names."""
        if names:
            write_text(self.folder / PEERS, json.dumps(names, ensure_ascii=False))

    def write_score(self, score: TaskScore) -> None:
        """Write what the run measures."""
        write_text(self.folder / SCORE, json.dumps(asdict(score)))

    def read_summary(self) -> RunSummary | None:
        """Read the summary; return None if the run has not finished."""
        path = self.folder / SUMMARY
        if not path.exists():
            return None
        try:
            summary = TypeAdapter(RunSummary).validate_json(read_small(path))
            if len(summary.cluster_means) != len(summary.cluster_names):
                raise StorageError("The number of means is not the number of clusters.")
        except (StorageError, ValidationError):
            raise StorageError(
                f"{path} is damaged. Delete it and resume the run to write it again."
            ) from None
        return summary

    def read_cluster_names(self) -> tuple[str, ...]:
        """Read the names of the true clusters; empty before the run has started."""
        return _read_names(self.folder / CLUSTERS)

    @cached_property
    def peer_names(self) -> tuple[str, ...]:
        """The names of the peers by their numbers, where a file names them; otherwise empty."""
        return _read_names(self.folder / PEERS)

    @property
    def seed(self) -> int:
        """The seed of all random draws of the run."""
        return self.config.seed

    @property
    def num_peers(self) -> int:
        """The number of peers, K."""
        return self.config.peers.count

    @property
    def has_clusters(self) -> bool:
        """Whether it is known which peers are similar; not if each has data of its own."""
        return self.config.data.files is None

    @property
    def is_finished(self) -> bool:
        """Whether the run had finished when the folder was opened."""
        return self.finished is not None

    @property
    def last_round(self) -> int:
        """The last round that is recorded in full; −1 if there is none."""
        return self.tables.last_round

    @cached_property
    def score(self) -> TaskScore:
        """What the run measures."""
        if self.finished is not None:
            return self.finished.score
        path = self.folder / SCORE
        try:
            return TypeAdapter(TaskScore).validate_json(read_small(path))
        except StorageError:  # runs of before measured accuracies, or squared errors
            return MSE if LINEAR in self.config.data.datasets else ACCURACY
        except ValidationError:
            raise StorageError(f"{path} is damaged. Resume the run to write it again.") from None

    @property
    def uses_ground_truth(self) -> bool:
        """Whether the strategy uses the true clusters, which no peer knows in practice."""
        strategy = STRATEGIES.get(self.config.strategy["name"])
        return strategy is not None and strategy.uses_ground_truth

    @property
    def has_server(self) -> bool:
        """Whether the strategy needs a server, which peers do not have."""
        strategy = STRATEGIES.get(self.config.strategy["name"])
        return strategy is not None and issubclass(strategy, ServerStrategy)

    @property
    def advantage(self) -> str:
        """What makes the strategy a yardstick, which peers could not run; else empty."""
        clusters = ["uses the true clusters"] * self.uses_ground_truth
        return ", ".join([*clusters, *["needs a server"] * self.has_server])

    @cached_property
    def poisoned(self) -> tuple[int, ...]:
        """The peers that are poisoned in some round; they have no results."""
        metrics = self.metrics
        found = pc.unique(metrics.filter(metrics["poisoned"])["peer"])
        return tuple(sorted(found.to_pylist()))

    @cached_property
    def last_tested(self) -> int:
        """The last round with a test; the last round if there was no test yet."""
        metrics = self.metrics
        tested = metrics.filter(pc.invert(pc.is_nan(metrics["test_loss"])))
        last: int = pc.max((tested if tested.num_rows else metrics)["round"]).as_py()
        return last

    @cached_property
    def summary(self) -> RunSummary:
        """The summary; of an unfinished run, that of its last test."""
        if self.finished is not None:
            return replace(self.finished, label=self.label, cluster_names=self.cluster_names)
        return summarise(
            self.metrics.filter(pc.less_equal(self.metrics["round"], self.last_tested)),
            self.label,
            self.seed,
            self.cluster_names,
            self.score,
        )

    @cached_property
    def software(self) -> dict[str, str]:
        """The versions of the software that made the results."""
        path = self.folder / SOFTWARE
        try:
            return TypeAdapter(dict[str, str]).validate_json(read_small(path))
        except ValidationError:
            raise StorageError(f"{path} is damaged: expected the names of packages.") from None

    def table(self, name: str) -> pa.Table:
        """Return a table by its name; it is empty if the run recorded nothing in it."""
        if name not in SCHEMAS:
            raise ConfigError(f"There is no table '{name}'.{suggest(name, SCHEMAS)}")
        return self.tables.table(name)

    @property
    def metrics(self) -> pa.Table:
        """Per round and peer: losses and scores before and after merging, tests, traffic."""
        return self.table("metrics")

    @property
    def exchanges(self) -> pa.Table:
        """Every model sent: round, receiver, sender, kind, bytes, delivered, merge weight."""
        return self.table("exchanges")

    @property
    def neighbours(self) -> pa.Table:
        """Per round and peer: the models received from its true cluster, and their weights."""
        return self.table("neighbours")

    @property
    def chosen_neighbours(self) -> pa.Table:
        """Per round and peer: its list of neighbours against its true cluster (PENS, PANM)."""
        return self.table("chosen_neighbours")

    @property
    def similarities(self) -> pa.Table:
        """The true similarity of watched peers to all others."""
        return self.table("similarities")

    @property
    def beliefs(self) -> pa.Table:
        """The peers' estimates of each other, in some rounds."""
        return self.table("beliefs")

    @property
    def arrivals(self) -> pa.Table:
        """Of real peers: every model that arrived, with its age and its transfer time."""
        return self.table("arrivals")

    @property
    def listed_neighbours(self) -> pa.Table:
        """Of real peers: the peers on each list of neighbours (PENS, PANM)."""
        return self.table("listed_neighbours")

    @property
    def efforts(self) -> pa.Table:
        """Of real peers: the seconds of each round, of training and of waiting."""
        return self.table("efforts")

    @property
    def test_metrics(self) -> pa.Table:
        """Per tested round, peer and metric: the further metrics of the task."""
        return self.table("test_metrics")

    @property
    def timings(self) -> pa.Table:
        """Wall and CPU seconds per round."""
        return self.table("timings")

    @cached_property
    def models(self) -> npt.NDArray[np.float32]:
        """Every peer's best model, (K, P), as a read-only memory map."""
        path = self.folder / MODELS
        if not path.exists():
            raise StorageError(
                f"{self.folder} has no models yet: they are written when a run has finished. "
                f"Continue it with: coterie resume {self.folder}"
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
        """The names, shapes and positions of the layers in a flat model of P values."""
        return Layout.of(self.build_model())

    def build_model(self) -> nn.Module:
        """Return a new module with the architecture of the run."""
        return build_model(_without_weights(self.config), self._num_outputs())

    def load_into(self, module: nn.Module, peer: int) -> nn.Module:
        """Load the weights of a peer's best model into a module, and return it."""
        load_best_model(module, self.models, peer)
        warn_of_other_backbone(FrozenPart.of(module), self.frozen_digest)
        return module

    @property
    def frozen_digest(self) -> str:
        """The SHA-256 of what is frozen in the models; empty if nothing is."""
        return read_metadata(self.folder / MODELS).get("frozen", "")

    def _num_outputs(self) -> int:
        """Return the number of outputs, from the size of the models: each output adds equally."""
        config = _without_weights(self.config)
        one, two = (Layout.of(build_model(config, outputs)).size for outputs in (1, 2))
        if one == two:  # a user's own model, which does not ask for its number of outputs
            return 1
        outputs, rest = divmod(self.models.shape[1] - one, two - one)
        if rest or outputs < 0:
            raise StorageError(
                f"{self.folder / MODELS} is damaged: no '{config.model.name}' has "
                f"{self.models.shape[1]:,} values, whatever its number of outputs."
            )
        return int(outputs) + 1

    def __repr__(self) -> str:
        score = self.summary.score
        state = "finished" if self.is_finished else "not finished"
        names = [name for name in SCHEMAS if _has_table(self.folder, name)]
        return (
            f"<run of {self.label} with seed {self.seed}, {self.config.preset}: "
            f"{self.config.peers.count} peers in {len(self.cluster_names)} clusters, "
            f"round {self.last_round} of {self.config.rounds}, {state}, test {score.name} "
            f"{score.format(self.summary.mean)}; "
            f"tables {', '.join(names)}; in {self.folder}>"
        )


def _read_names(path: Path) -> tuple[str, ...]:
    """Return a list of names; empty if there is no such file."""
    if not path.exists():
        return ()
    try:
        return TypeAdapter(tuple[str, ...]).validate_json(read_small(path))
    except (StorageError, ValidationError):
        raise StorageError(f"{path} is damaged. Resume the run to write it again.") from None


def _without_weights(config: RunConfig) -> RunConfig:
    """Return the configuration without pretrained weights, whose file may be gone."""
    return config.model_copy(update={"model": config.model.model_copy(update={"pretrained": None})})


def _has_table(folder: Path, name: str) -> bool:
    return (folder / f"{name}.parquet").exists() or (folder / name).exists()
