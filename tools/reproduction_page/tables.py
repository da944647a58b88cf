"""The tables of docs/reproduction.md about what is not a final accuracy, from kept analyses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.experiments.published.published_table import PublishedResult, PublishedTable
from coterie.results.analyses.analyse_runs import COMMUNICATION, cell, mean_over_seeds
from coterie.results.analyses.analysis_list import ShownColumn
from coterie.results.analyses.columns import ALL
from coterie.tasks.score import ACCURACY
from reproduction_page.kept import WINDOW, KeptRun

About = Mapping[str, str]
ORACLE = "oracle"


def _of_all(about: About) -> bool:
    """Whether a row is about all shifts together, or does not tell shifts apart."""
    return about.get("shift", ALL) == ALL


def _of_one_shift(about: About) -> bool:
    return not _of_all(about)


@dataclass(frozen=True)
class Number:
    """A column: which number of which analysis it holds, and how it is shown."""

    analysis: str
    column: str
    shown: ShownColumn
    chosen: Callable[[About], bool] = _of_all
    """Which rows of the analysis count."""

    def of(self, run: KeptRun) -> list[float]:
        """Return the values of one run; NaN is unknown."""
        rows = [row for row in run.summaries.get(self.analysis, ()) if self.chosen(row.about)]
        values = [row.values.get(self.column) for row in rows]
        return [math.nan if value is None else value for value in values]

    def of_all(self, runs: Sequence[KeptRun]) -> list[float]:
        """Return the values of several runs."""
        return [value for run in runs for value in self.of(run)]

    def written(self, values: Sequence[float]) -> str:
        """Return the mean of values as text."""
        return cell(mean_over_seeds(values), self.shown, len(values))


def _percent(title: str) -> ShownColumn:
    return ShownColumn(f"{title} %", scale=100.0)


FOUND = (
    Number("fetched", "precision", _percent("of own cluster")),
    Number("fetched", "chance", replace(_percent("by chance"), with_interval=False)),
    Number("unfetched", "share_never_fetched", _percent("never fetched")),
)
LISTED = (
    Number("neighbours", "precision", _percent("precision")),
    Number("neighbours", "recall", _percent("recall")),
)


def further_tables(runs: Sequence[KeptRun], published: PublishedTable | None) -> list[str]:
    """Return the tables that have something to say about an experiment, with their titles."""
    tables = (_deaths(runs), _shifts(runs), _neighbours(runs, published), _found(runs))
    return [table for table in tables if table]


def has_neighbours(runs: Sequence[KeptRun]) -> bool:
    """Whether lists of neighbours have a table, where the published ones stand beside them."""
    return any("neighbours" in run.summaries for run in runs)


def _found(runs: Sequence[KeptRun]) -> str:
    rows = _by_strategy(runs, FOUND)
    return _titled(
        "Fetched models",
        f"The share of the models fetched in the last {WINDOW} rounds that came from the peer's "
        "own true cluster. Beside it: the share that uniform sampling would give, and the share of "
        "peers whose model was never fetched.",
        ["strategy", *(number.shown.title for number in FOUND)],
        rows,
    )


def _shifts(runs: Sequence[KeptRun]) -> str:
    score = runs[0].outcome.score
    scale = score.scale
    numbers = (
        Number("recovery", "mean_level", ShownColumn("mean over time", scale)),
        Number("recovery", "drop", ShownColumn("drop", scale)),
        Number("recovery", "drop_after_round", ShownColumn("after a round", scale)),
        Number(
            "recovery",
            "rounds_to_95",
            ShownColumn("rounds to 95 %", with_interval=False),
            _of_one_shift,
        ),
        Number("recovery", "models_per_peer", COMMUNICATION["models_per_peer"]),
    )
    return _titled(
        "Shifts",
        f"Validation {score.title} of all peers, as a mean over all "
        f"rounds. The drop compares the {WINDOW} rounds before a shift with the same models right "
        "after it. The next column compares them with the models after one round on the new data; "
        "a negative number is a gain. The last time is the number of rounds until 95 % of the "
        "level before is regained. In brackets: after how many of the shifts that happens. All are "
        "means over shifts. Compare strategies that exchange about as many models.",
        ["strategy", *(number.shown.title for number in numbers)],
        _by_strategy(runs, numbers),
    )


def _neighbours(runs: Sequence[KeptRun], published: PublishedTable | None) -> str:
    rows = []
    for label, mine in by_label(runs).items():
        found = _by_strategy(mine, LISTED)
        rows += found
        result = published.results.get(label) if published else None
        if found and result:
            rows += _published_neighbours(mine, result)
    return _titled(
        "Neighbours",
        "The neighbour lists of the last round against the true clusters.",
        ["strategy", *(number.shown.title for number in LISTED)],
        rows,
    )


def _published_neighbours(mine: Sequence[KeptRun], result: PublishedResult) -> list[list[str]]:
    """Return the published precision and recall of a strategy, and ours minus them; if any."""
    if result.precision is None or result.recall is None:
        return []
    theirs = (result.precision, result.recall)
    ours = [mean_over_seeds(each.of_all(mine)).mean * each.shown.scale for each in LISTED]
    gaps = [mean - value for mean, value in zip(ours, theirs, strict=True)]
    return [
        ["*published*", *(f"{value:.2f}" for value in theirs)],
        ["*difference*", *("" if math.isnan(gap) else f"{gap:+.2f}" for gap in gaps)],
    ]


def _deaths(runs: Sequence[KeptRun]) -> str:
    """Return what delusional peers did to each cluster; the loss is that of their own."""
    delusions = [run.delusion for run in runs if run.delusion]
    if not delusions or runs[0].outcome.score != ACCURACY:
        return ""
    names = runs[0].outcome.cluster_names
    rows = [
        row
        for number, name in enumerate(names)
        for label, mine in by_label(runs).items()
        for row in _death(label, mine, by_label(runs).get(ORACLE, []), str(number), name)
    ]
    affected = " and ".join(dict.fromkeys(each.cluster for each in delusions))
    since = " or ".join(dict.fromkeys(str(each.from_round) for each in delusions))
    return _titled(
        "Cluster death",
        f"Validation accuracy % of each cluster, mean over the last {WINDOW} rounds: before "
        "merging, after merging, and after training. Some peers of the cluster "
        f"{affected} are delusional from round {since} on. The loss of the cluster is Oracle's "
        "accuracy minus its own, for each seed.",
        ["strategy", "delusional", "cluster", "before", "merged", "trained"],
        rows,
    )


def _death(
    label: str, mine: Sequence[KeptRun], oracles: Sequence[KeptRun], cluster: str, name: str
) -> list[list[str]]:
    """Return the rows of a strategy about one cluster: its accuracy, and what it lost if it did."""
    numbers = [
        Number(
            "merges",
            f"score_{moment}",
            ShownColumn(moment, 100.0),
            lambda about: about["cluster"] == cluster,
        )
        for moment in ("before", "merged", "trained")
    ]
    delusion = mine[0].delusion
    deluded = str(delusion.num_peers) if delusion else "0"
    rows = [[label, deluded, name, *(each.written(each.of_all(mine)) for each in numbers)]]
    if oracles and delusion and delusion.cluster == name:
        lost = (each.written(_losses(each, mine, oracles)) for each in numbers)
        rows.append(["*lost*", "", "", *lost])
    return rows


def _losses(number: Number, mine: Sequence[KeptRun], oracles: Sequence[KeptRun]) -> list[float]:
    """Return what each run has less than Oracle has with the same seed."""
    by_seed = {run.outcome.seed: number.of(run) for run in oracles}
    return [
        oracle - value
        for run in mine
        for oracle, value in zip(by_seed.get(run.outcome.seed, ()), number.of(run), strict=False)
    ]


def _by_strategy(runs: Sequence[KeptRun], numbers: Sequence[Number]) -> list[list[str]]:
    """Return a row for each strategy that has any of the numbers."""
    rows = []
    for label, mine in by_label(runs).items():
        values = [number.of_all(mine) for number in numbers]
        if any(values):
            pairs = zip(numbers, values, strict=True)
            rows.append([label, *(number.written(each) for number, each in pairs)])
    return rows


def by_label(runs: Sequence[KeptRun]) -> dict[str, list[KeptRun]]:
    """Return the runs of each strategy, in their order."""
    found: dict[str, list[KeptRun]] = {}
    for run in runs:
        found.setdefault(run.outcome.label, []).append(run)
    return found


def _titled(title: str, sentence: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table below its title and what it says, or nothing without rows."""
    return f"### {title}\n\n{sentence}\n\n{markdown(titles, rows)}\n" if rows else ""


def markdown(
    titles: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[str] = ()
) -> str:
    """Return a table for a page; all columns but the first and those of `texts` are numbers."""
    rules = ["---" if title in (titles[0], *texts) else "---:" for title in titles]
    lines = [titles, rules, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
