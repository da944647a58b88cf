"""What each peer gained over training alone with the same seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import LOCAL, RunGroup
from coterie.reports.html.views.view_parts import (
    Json,
    build_legend,
    cache_per_run,
    make_notice,
    map_runs,
    shorten_numbers,
)
from coterie.results.analyses.columns import by_round, columns

TestResults = dict[int, tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]]
"""By round: test results and clusters of the peers, each (K,)."""


def build_gains(group: RunGroup) -> Json:
    """Return per run the gain of each peer; peers below 0 were harmed."""
    if group.local_label is None:
        return make_notice(
            "Which peers gained or were harmed is unknown, because these runs do not include "
            "training alone. Run it too, with the same seeds: "
            f"coterie run {group.config.preset} --strategy {LOCAL}. "
            "Then give both folders to coterie report."
        )
    local = {run.seed: _test_results(run) for run in group.runs_by_label[group.local_label]}
    found = map_runs(
        group,
        lambda run: None if run.label == group.local_label else _gain(run, local.get(run.seed)),
    )
    if not found:
        return make_notice(
            f"No other strategy has been tested yet with the same seed as '{LOCAL}'."
        )
    return {**build_legend(group), "runs": found}


@cache_per_run
def _test_results(run: RunFolder) -> TestResults:
    column = "test_score"
    rows = by_round(columns(run.table("metrics"), "round", "cluster", column))
    return {
        number: (peers[column], peers["cluster"])
        for number, peers in rows
        if not np.isnan(peers[column]).all()
    }


def _gain(run: RunFolder, local: TestResults | None) -> Json | None:
    """Return the gains after the last round in which both runs were tested."""
    mine = _test_results(run)
    both = sorted(mine.keys() & (local or {}).keys())
    if not both or local is None:
        return None
    after = both[-1]
    values, clusters = mine[after]
    gained = run.score.sign * run.score.scale * (values - local[after][0])
    return {
        "round": after,
        "gains": shorten_numbers(gained, 4),
        "clusters": clusters.tolist(),
        "num_poisoned": len(run.poisoned),
    }
