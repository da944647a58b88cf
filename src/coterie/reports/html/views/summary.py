"""What was run and what came of it, in words and one table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coterie.experiments.run_summary import RunSummary
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.gains import gains
from coterie.reports.html.views.headline import headline, is_going_on, standing
from coterie.reports.html.views.origin import origin
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import describe_poison
from coterie.results.result_columns import Column, group_warnings, result_columns
from coterie.results.statistics import confidence_interval


def summary(subject: Subject) -> Json:
    """Return sentences, the final table, and notices about what is missing."""
    outcomes = {label: [run.summary for run in runs] for label, runs in subject.by_label.items()}
    found = standing(subject)
    going_on = any(map(is_going_on, subject.runs))
    return {
        "origin": origin(subject),
        "sentences": [
            what_was_run(subject),
            *headline(subject, found),
            *_harm(subject),
            *describe_poison(subject.by_label),
        ],
        "table": _table(subject, outcomes, None if going_on else found.best),
        "problems": [
            *subject.problems,
            *_unfinished(subject),
            *group_warnings([each for mine in outcomes.values() for each in mine]),
        ],
    }


def what_was_run(subject: Subject) -> str:
    """Say what was run, in one sentence."""
    config, names = subject.config, subject.cluster_names
    clusters = (
        f"in {len(names)} clusters ({', '.join(names)})" if len(names) > 1 else "in one cluster"
    )
    rounds = max(run.config.rounds for run in subject.runs)
    seeds = len(subject.seeds)
    return (
        f"{config.peers.count:,} peers {clusters} trained {config.model.name} on "
        f"{' and '.join(dict.fromkeys(config.data.datasets))} for {_count(rounds, 'round')}, with "
        f"{_count(len(subject.labels), 'strategy', 'strategies')} and {_count(seeds, 'seed')}."
    )


def _harm(subject: Subject) -> list[str]:
    """Say with which strategy how many peers ended worse than alone."""
    found = gains(subject)
    if "missing" in found:
        return [found["missing"]]
    told = []
    for place, label in enumerate(subject.labels):
        mine = [run for run in found["runs"] if run["strategy"] == place]
        values = [value for run in mine for value in run["gains"] if value is not None]
        if values:
            harmed = sum(value < 0 for value in values)
            told.append(f"{label} {harmed} of {len(values)} ({harmed / len(values):.0%})")
    seeds = ", all seeds counted" if len(subject.seeds) > 1 else ""
    return [f"Peers that ended worse than training alone{seeds}: {'; '.join(told)}."]


def _table(subject: Subject, outcomes: dict[str, list[RunSummary]], best: str | None) -> Json:
    """Return head and rows: mean ± 95% interval over seeds, per cluster and in all."""
    every = [each for mine in outcomes.values() for each in mine]
    shape = max(every, key=lambda each: len(each.cluster_names))
    columns = result_columns([shape, *every])
    measure = "test accuracy in %" if subject.is_accuracy else "test error (MSE)"
    bold = "; bold: clearly best among the competitors" if best else ""
    return {
        "caption": f"{measure}, mean ± 95% interval over seeds; models and MB sent and received "
        f"per peer{bold}",
        "head": ["strategy", *(column.title for column in columns), "seeds"],
        "rows": [
            [label, *(_cell(column, mine) for column in columns), str(len(mine))]
            for label, mine in outcomes.items()
        ],
        "marks": [subject.advantage(label) for label in outcomes],
        "best": subject.labels.index(best) if best else None,
    }


def _cell(column: Column, mine: Sequence[RunSummary]) -> str:
    mean, width = confidence_interval([column.ours(each) for each in mine])
    if math.isnan(mean):
        return "–"
    with_width = column.has_interval and not math.isnan(width)
    return f"{mean:{column.form}}" + (f" ± {width:{column.form}}" if with_width else "")


def _unfinished(subject: Subject) -> list[str]:
    return [
        f"{run.label} with seed {run.seed} has not finished: {run.last_round} of "
        f"{run.config.rounds} rounds are shown."
        for run in subject.runs
        if run.finished is None
    ]


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
