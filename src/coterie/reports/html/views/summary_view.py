"""The summary of a page: sentences about the results, and the final table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coterie.experiments.run_summary import RunSummary
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.gains_view import build_gains
from coterie.reports.html.views.ranking import has_rounds_left, rank_strategies, write_headline
from coterie.reports.html.views.run_origin import describe_origin
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import describe_poison
from coterie.results.result_columns import Column, group_warnings, result_columns
from coterie.results.statistics import confidence_interval


def build_summary(group: RunGroup) -> Json:
    """Return sentences, the final table, and notices about missing data."""
    summaries = {
        label: [run.summary for run in runs] for label, runs in group.runs_by_label.items()
    }
    ranking = rank_strategies(group)
    unfinished = any(map(has_rounds_left, group.runs))
    return {
        "origin": describe_origin(group),
        "sentences": [
            describe_runs(group),
            *write_headline(group, ranking),
            *_harm(group),
            *describe_poison(group.runs_by_label),
        ],
        "table": _table(group, summaries, None if unfinished else ranking.best),
        "problems": [
            *group.problems,
            *_unfinished(group),
            *group_warnings([each for mine in summaries.values() for each in mine]),
        ],
    }


def describe_runs(group: RunGroup) -> str:
    """Return a sentence about what was run."""
    config, names = group.config, group.cluster_names
    clusters = (
        f"in {len(names)} clusters ({', '.join(names)})" if len(names) > 1 else "in one cluster"
    )
    if not group.runs[0].has_clusters:
        clusters = "with data of their own"
    rounds = max(run.config.rounds for run in group.runs)
    seeds = len(group.seeds)
    return (
        f"{config.peers.count:,} peers {clusters} trained {config.model.name} on "
        f"{' and '.join(dict.fromkeys(config.data.datasets))} for {_count(rounds, 'round')}, with "
        f"{_count(len(group.labels), 'strategy', 'strategies')} and {_count(seeds, 'seed')}."
    )


def _harm(group: RunGroup) -> list[str]:
    """Return a sentence: how many peers ended worse than alone, per strategy."""
    found = build_gains(group)
    if "missing" in found:
        return [found["missing"]]
    shares = []
    for place, label in enumerate(group.labels):
        mine = [run for run in found["runs"] if run["strategy"] == place]
        values = [value for run in mine for value in run["gains"] if value is not None]
        if values:
            harmed = sum(value < 0 for value in values)
            shares.append(f"{label} {harmed} of {len(values)} ({harmed / len(values):.0%})")
    seeds = ", all seeds counted" if len(group.seeds) > 1 else ""
    return [f"Peers that ended worse than training alone{seeds}: {'; '.join(shares)}."]


def _table(group: RunGroup, summaries: dict[str, list[RunSummary]], best: str | None) -> Json:
    """Return the final table: mean ± 95% interval over seeds, per cluster and over all peers."""
    every = [each for mine in summaries.values() for each in mine]
    shape = max(every, key=lambda each: len(each.cluster_names))
    columns = result_columns([shape, *every])
    score = group.score
    measure = f"test {score.name}{f' in {score.unit}' if score.unit else ''}"
    bold = "; bold: clearly best among the competitors" if best else ""
    return {
        "caption": f"{measure}, mean ± 95% interval over seeds; models and MB sent and received "
        f"per peer{bold}",
        "head": ["strategy", *(column.title for column in columns), "seeds"],
        "rows": [
            [label, *(_cell(column, mine) for column in columns), str(len(mine))]
            for label, mine in summaries.items()
        ],
        "marks": [group.advantage(label) for label in summaries],
        "best": group.labels.index(best) if best else None,
    }


def _cell(column: Column, mine: Sequence[RunSummary]) -> str:
    mean, width = confidence_interval([column.ours(each) for each in mine])
    if math.isnan(mean):
        return "–"
    with_width = column.has_interval and not math.isnan(width)
    return f"{mean:{column.form}}" + (f" ± {width:{column.form}}" if with_width else "")


def _unfinished(group: RunGroup) -> list[str]:
    return [
        f"{run.label} with seed {run.seed} has not finished: {run.last_round} of "
        f"{run.config.rounds} rounds are shown."
        for run in group.runs
        if run.finished is None
    ]


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
