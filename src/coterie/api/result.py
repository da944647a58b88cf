"""The result of a simulation from Python."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import nn

    from coterie.experiments.config import RunConfig
    from coterie.experiments.run_summary import RunSummary
    from coterie.models.layout import Layout
    from coterie.models.shared_builder import SharedBuilder

ROWS_AT_ONCE = 1024
"""Samples that are predicted together, to bound the memory."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a simulation: every peer's best model, and the recorded tables."""

    models: npt.NDArray[np.float32]
    """Best models as flat vectors, (K, P)."""
    tables: Mapping[str, pa.Table]
    """The tables of the run by their names, see docs/run-folder.md."""
    summary: RunSummary
    """Means over clusters and over all peers."""
    config: RunConfig
    """The settings of the run."""
    build: Callable[[], nn.Module] | None = field(default=None, compare=False)
    """Builds the module; None for a loaded result without it."""
    frozen_digest: str = ""
    """SHA-256 of what is frozen in the models, such as a backbone; empty if nothing is."""

    @property
    def metrics(self) -> pa.Table:
        """Per round and peer: losses and scores before and after merging, tests, traffic."""
        return self.tables["metrics"]

    @property
    def exchanges(self) -> pa.Table:
        """Every model sent: round, receiver, sender, kind, bytes, delivered, merge weight."""
        return self.tables["exchanges"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the results, such as models not clearly better than guessing."""
        return self.summary.warnings

    @property
    def test_score(self) -> npt.NDArray[np.float64]:
        """Each peer's final test score, such as its accuracy, (K,); NaN for poisoned peers."""
        return np.asarray(self.metrics["test_score"].to_numpy()[-len(self.models) :])

    @property
    def test_loss(self) -> npt.NDArray[np.float64]:
        """Each peer's final test loss, (K,); NaN for poisoned peers."""
        return np.asarray(self.metrics["test_loss"].to_numpy()[-len(self.models) :])

    @property
    def test_metrics(self) -> dict[str, npt.NDArray[np.float64]]:
        """The further metrics of the task by name: each peer's value in the last test, (K,)."""
        table = self.tables["test_metrics"]
        rows = table.slice(max(0, table.num_rows - len(self.models) * len(self.summary.metrics)))
        values = rows["value"].to_numpy().reshape(len(self.summary.metrics), -1)
        return {
            metric.score.name: mine
            for metric, mine in zip(self.summary.metrics, values, strict=True)
        }

    @property
    def layout(self) -> Layout:
        """The names, shapes and positions of the layers in a flat model."""
        return self._builder().layout

    def module(self, peer: int) -> nn.Module:
        """Return a new module with a peer's best model, in evaluation mode."""
        from coterie.experiments.saved_models import load_best_model, warn_of_other_backbone

        builder = self._builder()
        warn_of_other_backbone(builder.frozen, self.frozen_digest)
        return load_best_model(builder(), self.models, peer).eval()

    def predict(self, peer: int, inputs: Any) -> npt.NDArray[np.float32]:
        """Return the outputs of a peer's best model, (n, …).

        Parameters
        ----------
        peer
            The number of the peer.
        inputs
            Inputs in one of the forms that `PeerData` takes, (n, …).

        Examples
        --------
        >>> import coterie, numpy as np
        >>> from torch import nn
        >>> peers = [(np.eye(8, 4, dtype="float32"), np.arange(8) % 2) for _ in range(3)]
        >>> build = lambda: nn.Sequential(nn.Linear(4, 2))
        >>> result = coterie.simulate(build, peers, "local", {"rounds": 1})
        Held out of the training data of each peer: a fifth for validation and a fifth for test.
        >>> result.predict(0, np.zeros((5, 4))).shape
        (5, 2)
        """
        from coterie.data.convert_samples import convert_inputs
        from coterie.learning.module_calls import predict

        arrays = convert_inputs("The inputs of predict", inputs)
        return predict(self.module(peer), arrays, ROWS_AT_ONCE)

    def load_into(self, module: nn.Module, peer: int) -> nn.Module:
        """Load the weights of a peer's best model into a module, and return it.

        The module keeps its own frozen part, such as a backbone. If it is not that of the run,
        there is a warning.
        """
        from coterie.experiments.saved_models import load_best_model, warn_of_other_backbone
        from coterie.models.frozen_part import FrozenPart

        load_best_model(module, self.models, peer)
        warn_of_other_backbone(FrozenPart.of(module), self.frozen_digest)
        return module

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a new folder, which `load_run` and the command line read too."""
        from coterie.experiments.python_runs import open_folder
        from coterie.experiments.run_folder import SUMMARY
        from coterie.experiments.saved_models import write_models
        from coterie.runtime.recorder import write_tables
        from coterie.storage.files import write_text

        run = open_folder(Path(path).expanduser(), self.config, resume=False)
        run.write_cluster_names(self.summary.cluster_names)
        run.write_score(self.summary.score)
        write_tables(run.folder, self.tables)
        write_models(run.folder, self.models, self.frozen_digest)
        write_text(run.folder / SUMMARY, json.dumps(asdict(self.summary), indent=2))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], build: Callable[[], nn.Module] | None = None
    ) -> Result:
        """Load a result that `save` or `simulate(…, out=…)` wrote.

        Parameters
        ----------
        path
            The folder.
        build
            The function that builds the module, for `module` and `predict`.
        """
        from coterie.api.saved_runs import load_run
        from coterie.runtime.run_tables import SCHEMAS

        run = load_run(path)
        if not run.is_finished:
            raise ConfigError(
                f"{path} holds a run that has not finished. Continue it with coterie.simulate(…, "
                "out=…, resume=True), or read its tables with coterie.load_run."
            )
        tables = {name: run.table(name) for name in SCHEMAS}
        digest = run.frozen_digest
        return cls(np.array(run.models), tables, run.summary, run.config, build, digest)

    def _builder(self) -> SharedBuilder:
        from coterie.models.shared_builder import SharedBuilder

        if self.build is None:
            raise ConfigError(
                "This result was loaded without the function that builds its module. Give it: "
                "Result.load(path, build)."
            )
        return SharedBuilder.of(self.build, self.config.seed)

    def __repr__(self) -> str:
        rounds, mean = self.metrics["round"][-1].as_py(), self.summary.mean
        reached = f"{self.summary.score.name} {self.summary.score.format(mean)}"
        return (
            f"<Result of {self.summary.label}: peers {len(self.models)}, rounds {rounds}, mean "
            f"test {reached}; see test_score, test_loss, summary, metrics, exchanges, models>"
        )
