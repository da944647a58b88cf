"""What merging does: validation before a merge, after it, and after training again."""

from __future__ import annotations

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import (
    Json,
    Series,
    legend,
    missing,
    once_per_run,
    over_seeds,
    shifts,
)
from coterie.results.analyses.columns import ALL, columns
from coterie.results.analyses.merges import MOMENTS, around_merges


def merge(subject: Subject) -> Json:
    """Return validation around merges: lines[strategy][0: all, then clusters][moment]."""
    measure = "accuracy" if subject.is_accuracy else "loss"
    found = {run.folder: _moments(run, measure) for run in subject.runs}
    if not any(found.values()):
        return missing("No round after the initial training has been recorded yet.")
    scale = legend(subject)["measure"]["scale"]
    clusters = [ALL, *(str(number) for number in range(len(subject.cluster_names)))]
    return {
        **legend(subject),
        "shifts": shifts(subject),
        "moments": list(MOMENTS),
        "lines": [
            [
                [
                    over_seeds([found[run.folder].get((name, moment), {}) for run in runs], scale)
                    for moment in MOMENTS
                ]
                for name in clusters
            ]
            for runs in subject.by_label.values()
        ],
    }


@once_per_run
def _moments(run: RunFolder, measure: str) -> dict[tuple[str, str], Series]:
    """Return mean validation by cluster and moment, each by round."""
    detail = around_merges(run.table("metrics"))
    if not detail.num_rows:
        return {}
    names = [f"{measure}_{moment}" for moment in MOMENTS]
    table = columns(detail, "round", "cluster", *names)
    found: dict[tuple[str, str], dict[int, float]] = {}
    for place, (number, cluster) in enumerate(zip(table["round"], table["cluster"], strict=True)):
        for moment, name in zip(MOMENTS, names, strict=True):
            found.setdefault((str(cluster), moment), {})[int(number)] = float(table[name][place])
    return dict(found)
