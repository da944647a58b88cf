"""Validation before a merge, after it, and after training again."""

from __future__ import annotations

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    build_legend,
    cache_per_run,
    find_shifts,
    make_notice,
    summarise_seeds,
)
from coterie.results.analyses.columns import ALL, columns
from coterie.results.analyses.merges import MOMENTS, around_merges


def build_merge(group: RunGroup) -> Json:
    """Return lines[strategy][0: all peers, then the clusters][moment]."""
    found = {run.folder: _moments(run) for run in group.runs}
    if not any(found.values()):
        return make_notice("No round after the initial training has been recorded yet.")
    scale = build_legend(group)["measure"]["scale"]
    clusters = [ALL, *group.cluster_numbers]
    return {
        **build_legend(group),
        "shifts": find_shifts(group),
        "moments": list(MOMENTS),
        "lines": [
            [
                [
                    summarise_seeds(
                        [found[run.folder].get((name, moment), {}) for run in runs], scale
                    )
                    for moment in MOMENTS
                ]
                for name in clusters
            ]
            for runs in group.runs_by_label.values()
        ],
    }


@cache_per_run
def _moments(run: RunFolder) -> dict[tuple[str, str], Series]:
    """Return mean validation by cluster and moment, each by round."""
    detail = around_merges(run.table("metrics"))
    if not detail.num_rows:
        return {}
    names = [f"score_{moment}" for moment in MOMENTS]
    table = columns(detail, "round", "cluster", *names)
    found: dict[tuple[str, str], dict[int, float]] = {}
    for place, (number, cluster) in enumerate(zip(table["round"], table["cluster"], strict=True)):
        for moment, name in zip(MOMENTS, names, strict=True):
            found.setdefault((str(cluster), moment), {})[int(number)] = float(table[name][place])
    return dict(found)
