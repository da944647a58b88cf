"""The final table: test results per cluster, mean ± 95% confidence interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from scipy import stats


@dataclass(frozen=True)
class Outcome:
    """What one finished run reached: means of the last test over the peers of each cluster."""

    label: str
    seed: int
    cluster_names: tuple[str, ...]
    cluster_means: tuple[float, ...]
    """NaN where no peer was in the cluster at the end."""
    mean: float
    models_per_peer: float
    """Models received and sent, probes included, mean over peers."""
    megabytes_per_peer: float
    is_accuracy: bool


def outcome(
    metrics: pa.Table, label: str, seed: int, cluster_names: Sequence[str], *, is_accuracy: bool
) -> Outcome:
    """Summarise a run's metrics table."""
    column = "test_accuracy" if is_accuracy else "test_loss"
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    values = last[column].to_numpy()
    clusters = last["cluster"].to_numpy()
    means = tuple(_mean(values[clusters == number]) for number in range(len(cluster_names)))
    num_peers = max(len(values), 1)
    models = sum(metrics[f"models_{side}"].to_numpy().sum() for side in ("received", "sent"))
    size = sum(metrics[f"bytes_{side}"].to_numpy().sum() for side in ("received", "sent"))
    return Outcome(
        label=label,
        seed=seed,
        cluster_names=tuple(cluster_names),
        cluster_means=means,
        mean=_mean(values),
        models_per_peer=float(models) / num_peers,
        megabytes_per_peer=float(size) / num_peers / 1e6,
        is_accuracy=is_accuracy,
    )


def confidence(values: npt.ArrayLike) -> tuple[float, float]:
    """Return mean and half width of the 95% interval (Student's t); NaN width for one value."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return _mean(known), math.nan
    error = known.std(ddof=1) / math.sqrt(len(known))
    return _mean(known), float(stats.t.ppf(0.975, len(known) - 1) * error)


def final_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Return the comparison of strategies, one row each."""
    first = outcomes[0]
    measure = "test accuracy %" if first.is_accuracy else "test MSE"
    table = Table(
        title=f"{title}: {measure}; models and MB sent and received per peer",
        title_justify="left",
    )
    table.add_column("strategy")
    named = [_column_title(name, outcomes, n) for n, name in enumerate(first.cluster_names)]
    for name in (*named, "mean", "models", "MB", "seeds"):
        table.add_column(name, justify="right")
    best = _best_label(outcomes)
    for label in dict.fromkeys(each.label for each in outcomes):
        mine = [each for each in outcomes if each.label == label]
        per_cluster = zip(*(each.cluster_means for each in mine), strict=True)
        cells = [_cell(values, first.is_accuracy) for values in per_cluster]
        cells.append(_cell([each.mean for each in mine], first.is_accuracy))
        cells.append(f"{np.mean([each.models_per_peer for each in mine]):,.0f}")
        cells.append(f"{np.mean([each.megabytes_per_peer for each in mine]):,.1f}")
        cells.append(str(len(mine)))
        table.add_row(label, *cells, style="bold" if label == best else "")
    return table


def _column_title(name: str, outcomes: Sequence[Outcome], number: int) -> str:
    return name if any(not math.isnan(o.cluster_means[number]) for o in outcomes) else f"{name} (–)"


def _best_label(outcomes: Sequence[Outcome]) -> str:
    means = {
        label: np.mean([each.mean for each in outcomes if each.label == label])
        for label in dict.fromkeys(each.label for each in outcomes)
    }
    sign = 1.0 if outcomes[0].is_accuracy else -1.0
    return max(means, key=lambda label: np.nan_to_num(sign * means[label], nan=-np.inf))


def _cell(values: Sequence[float], is_accuracy: bool) -> str:
    mean, width = confidence(values)
    if math.isnan(mean):
        return "–"
    scale = 100.0 if is_accuracy else 1.0
    text = f"{mean * scale:.2f}"
    return text if math.isnan(width) else f"{text} ± {width * scale:.2f}"


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else math.nan
