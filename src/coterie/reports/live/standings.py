"""Where each strategy stands now: the numbers of the terminal's view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.curves import curves
from coterie.results.analyses.columns import last_rounds, mean
from coterie.results.analyses.neighbours import fetched_lately, fetched_precision

WINDOW = 10
"""Rounds over which the share of models from the own cluster is averaged."""


@dataclass(frozen=True)
class Standing:
    """The latest validation of one strategy, mean over seeds; None: unknown."""

    label: str
    all_peers: float | None
    per_cluster: tuple[float | None, ...]
    precision: float | None
    """Percent of the fetched models that came from the own true cluster, lately."""
    curve: Sequence[float | None]
    """Of all peers, over rounds."""


def standings(subject: Subject) -> list[Standing]:
    """Return one standing per strategy, in order; accuracies are in percent."""
    found = curves(subject)["curves"]["validation"]
    return [
        Standing(
            label=label,
            all_peers=_last(of_strategy[0]),
            per_cluster=tuple(_last(curve) for curve in of_strategy[1:]),
            precision=_precision(subject.by_label[label]),
            curve=of_strategy[0]["mean"],
        )
        for label, of_strategy in zip(subject.labels, found, strict=True)
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
