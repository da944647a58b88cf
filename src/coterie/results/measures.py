"""The measures by which strategies are compared, and the costs of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import StorageError
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary, summarise
from coterie.runtime.round_metrics import known_mean
from coterie.tasks.score import LOSS

Measure: TypeAlias = Literal[
    "test-score", "test-loss", "validation-score", "validation-loss", "train-loss"
]
DEFAULT_MEASURE: Measure = "test-score"
"""The test of the best models by validation."""
_COLUMNS: dict[Measure, str] = {
    "test-score": "test_score",
    "test-loss": "test_loss",
    "validation-score": "validation_score_trained",
    "validation-loss": "validation_loss_trained",
    "train-loss": "train_loss",
}


@dataclass(frozen=True)
class Costs:
    """Communication per peer, and the time of a run."""

    models: float
    """Sent and received so far, with probes."""
    probes: float
    """Models sent and received only to be scored; NaN if the exchanges cannot be read."""
    megabytes: float
    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class MeasuredRun:
    """One run in a comparison."""

    run: RunFolder
    summary: RunSummary
    """By the chosen measure."""
    costs: Costs


def measure_run(run: RunFolder, measure: Measure) -> MeasuredRun:
    """Return the result of a run, or its result so far, and its costs."""
    timings = run.table("timings")
    traffic = run.finished or summarise(run.table("metrics"), run.label, run.seed, (), run.score)
    return MeasuredRun(
        run,
        run.summary if measure == DEFAULT_MEASURE else _summary_by(run, measure),
        Costs(
            traffic.models_per_peer,
            _probes_per_peer(run),
            traffic.megabytes_per_peer,
            float(pc.sum(timings["wall_seconds"]).as_py() or 0.0),
            float(pc.sum(timings["cpu_seconds"]).as_py() or 0.0),
        ),
    )


def mean_costs(runs: Sequence[MeasuredRun]) -> Costs:
    """Return the mean costs of runs."""
    return Costs(*map(known_mean, zip(*(astuple(each.costs) for each in runs), strict=True)))


def _summary_by(run: RunFolder, measure: Measure) -> RunSummary:
    """Return the summary of a run by another measure: the last known value of each peer."""
    metrics = run.table("metrics")
    values = _last_known(metrics, _COLUMNS[measure], run.num_peers)
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    clusters = last["cluster"].to_numpy()[np.argsort(last["peer"].to_numpy())]
    groups = (values[clusters == number] for number in range(len(run.cluster_names)))
    return replace(
        run.summary,
        cluster_means=tuple(known_mean(group) for group in groups),
        mean=known_mean(values),
        score=run.score if measure.endswith("score") else LOSS,
    )


def _last_known(metrics: pa.Table, column: str, num_peers: int) -> npt.NDArray[np.float64]:
    """Return the last value of each peer that is not NaN, (K,); NaN if there is none."""
    known = metrics.filter(pc.invert(pc.is_nan(metrics[column]))).sort_by("round")
    values = np.full(num_peers, np.nan)
    # Rounds are in order, so the last assignment to a peer is the newest.
    values[known["peer"].to_numpy()] = known[column].to_numpy()
    return values


def _probes_per_peer(run: RunFolder) -> float:
    try:
        exchanges = run.table("exchanges")
    except StorageError:  # the results of the run are known nevertheless
        return math.nan
    probes = exchanges.filter(pc.equal(exchanges["kind"], "probe"))
    delivered = pc.sum(probes["delivered"]).as_py() or 0
    return float(probes.num_rows + delivered) / run.num_peers
