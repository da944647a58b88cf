"""Did it help? What each peer gained over training alone, with the same seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import ALONE, Subject
from coterie.reports.html.views.view_parts import (
    Json,
    each_run,
    legend,
    missing,
    numbers,
    once_per_run,
)
from coterie.results.analyses.columns import by_round, columns

Tested = dict[int, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]
"""By round: each peer's test result and cluster, (K,)."""


def gains(subject: Subject) -> Json:
    """Return per run each peer's gain, in the order of peers; harmed are those below 0."""
    if subject.alone is None:
        return missing(
            "To see who gained and who was harmed, somebody has to train alone with the same "
            f"seeds. Run the strategy '{ALONE}' too, such as coterie run {subject.config.preset} "
            f"--strategy {ALONE}, with the same --seeds, and name both folders."
        )
    alone = {run.seed: _tested(run) for run in subject.by_label[subject.alone]}
    found = each_run(
        subject,
        lambda run: None if run.label == subject.alone else _gain(run, alone.get(run.seed)),
    )
    if not found:
        return missing(
            f"No strategy but '{ALONE}' has been tested yet with a seed that '{ALONE}' has too."
        )
    return {**legend(subject), "alone": subject.alone, "runs": found}


@once_per_run
def _tested(run: RunFolder) -> Tested:
    column = f"test_{'accuracy' if run.is_accuracy else 'loss'}"
    rows = by_round(columns(run.table("metrics"), "round", "cluster", column))
    return {
        number: (peers[column], peers["cluster"])
        for number, peers in rows
        if not np.isnan(peers[column]).all()
    }


def _gain(run: RunFolder, alone: Tested | None) -> Json | None:
    """Return the gains after the last round in which both were tested."""
    mine = _tested(run)
    both = sorted(mine.keys() & (alone or {}).keys())
    if not both or alone is None:
        return None
    after = both[-1]
    values, clusters = mine[after]
    sign, scale = (1.0, 100.0) if run.is_accuracy else (-1.0, 1.0)
    gained = sign * scale * (values - alone[after][0])
    return {
        "round": after,
        "gains": numbers(gained, 4),
        "clusters": clusters.tolist(),
        "num_poisoned": len(run.poisoned),
    }
