"""The latest validation of each strategy, for the terminal view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.curves_view import build_curves
from coterie.results.analyses.columns import last_rounds, mean
from coterie.results.analyses.neighbours import fetched_lately, fetched_precision

WINDOW = 10
"""Number of last rounds over which the share of models from the own cluster is averaged."""


@dataclass(frozen=True)
class LatestValidation:
    """The latest validation of one strategy, mean over seeds; None if unknown."""

    label: str
    all_peers: float | None
    per_cluster: tuple[float | None, ...]
    precision: float | None
    """Percent of the models fetched in the last rounds that came from the own true cluster."""
    curve: Sequence[float | None]
    """Mean over all peers, by round."""


def read_latest_validation(group: RunGroup) -> list[LatestValidation]:
    """Return the latest validation of each strategy; accuracies are in percent."""
    found = build_curves(group)["curves"]["validation"]
    return [
        LatestValidation(
            label=label,
            all_peers=_last(of_strategy[0]),
            per_cluster=tuple(_last(curve) for curve in of_strategy[1:]),
            precision=_precision(group.runs_by_label[label]),
            curve=of_strategy[0]["mean"],
        )
        for label, of_strategy in zip(group.labels, found, strict=True)
    ]


def _last(curve: dict[str, Any]) -> float | None:
    return curve["mean"][-1] if curve["mean"] else None


def _precision(runs: Sequence[RunFolder]) -> float | None:
    known = []
    for run in runs:
        neighbours = run.table("neighbours")
        if neighbours.num_rows:
            detail = fetched_precision(last_rounds(neighbours, WINDOW))
            if detail.num_rows:
                known += fetched_lately(detail, WINDOW)["precision"].to_pylist()
    value = mean(known)
    return None if math.isnan(value) else 100.0 * value
