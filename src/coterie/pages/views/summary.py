"""What was run and what came of it, in words and one table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from coterie.gathering import FoundRun, about_poison
from coterie.pages.subjects import Subject
from coterie.pages.views.base import Json
from coterie.pages.views.gains import gains
from coterie.reports.tables import Column, Outcome, confidence, result_columns, warnings


def summary(subject: Subject) -> Json:
    """Return sentences, the final table, and notices about what is missing."""
    outcomes = {label: [run.outcome for run in runs] for label, runs in subject.by_label.items()}
    ranking = _ranking(subject, outcomes)
    going_on = any(map(_is_going_on, subject.runs))
    return {
        "sentences": [
            what_was_run(subject),
            *_who_did_best(subject, ranking),
            *_harm(subject),
            *about_poison(subject.by_label),
        ],
        "table": _table(subject, outcomes, ranking[0][0] if ranking and not going_on else None),
        "problems": [
            *subject.problems,
            *_unfinished(subject),
            *warnings([each for mine in outcomes.values() for each in mine]),
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


def _ranking(
    subject: Subject, outcomes: dict[str, list[Outcome]]
) -> list[tuple[str, float, float]]:
    """Return label, mean and interval of the strategies that were tested, best first.

    Runs that have not finished may be at different rounds: they are not compared.
    """
    scale = 100.0 if subject.is_accuracy else 1.0
    found = []
    for label, mine in outcomes.items():
        if any(map(_is_going_on, subject.by_label[label])):
            continue
        level, width = confidence([each.mean for each in mine])
        found.append((label, scale * level, scale * width))
    tested = [each for each in found if not math.isnan(each[1])]
    return sorted(tested, key=lambda each: -each[1] if subject.is_accuracy else each[1])


def _who_did_best(subject: Subject, ranking: Sequence[tuple[str, float, float]]) -> list[str]:
    """Say who did best, and who of those that are not told the true clusters."""
    if not ranking:
        return ["Strategies are compared once their runs have finished."]
    said = [_best(subject, ranking)]
    if any(map(_is_going_on, subject.runs)):
        said = [f"Some runs still go on. Of those that have finished, {said[0]}"]
    fair = [each for each in ranking if not subject.is_told(each[0])]
    if fair and fair[0] != ranking[0]:
        said.append(
            f"{ranking[0][0]} is told the true clusters, which no peer knows in practice. Of the "
            f"others, {_best(subject, fair)}"
        )
    return said


def _best(subject: Subject, ranking: Sequence[tuple[str, float, float]]) -> str:
    label, level, width = ranking[0]
    what = "test accuracy" if subject.is_accuracy else "test error (MSE)"
    text = f"{label} did best: {what} {_level(subject, level)}"
    text += "" if math.isnan(width) else f" ± {_plain(subject, width)} (95% interval)"
    if len(ranking) < 2:
        return f"{text}."
    second, lower, _ = ranking[1]
    text += f", {_better(subject, label, second)} {second} ({_level(subject, lower)})"
    if subject.alone is None or subject.alone in (label, second):
        return f"{text}."
    return f"{text} and {_better(subject, label, subject.alone)} training alone."


def _better(subject: Subject, label: str, other: str) -> str:
    """Say by how much a strategy is better, on the seeds both have, unless that may be chance."""
    levels = {
        each: {run.seed: run.outcome.mean for run in subject.by_label[each]}
        for each in (label, other)
    }
    seeds = levels[label].keys() & levels[other].keys()
    mean, width = confidence([levels[label][seed] - levels[other][seed] for seed in sorted(seeds)])
    if math.isnan(mean) or width >= abs(mean):
        return "not clearly better than"
    scale, points = (100.0, " points") if subject.is_accuracy else (1.0, "")
    return f"{_plain(subject, scale * abs(mean))}{points} better than"


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


def _table(subject: Subject, outcomes: dict[str, list[Outcome]], best: str | None) -> Json:
    """Return head and rows: mean ± 95% interval over seeds, per cluster and in all."""
    every = [each for mine in outcomes.values() for each in mine]
    shape = max(every, key=lambda each: len(each.cluster_names))
    columns = result_columns([shape, *every])
    measure = "test accuracy in %" if subject.is_accuracy else "test error (MSE)"
    return {
        "caption": f"{measure}, mean ± 95% interval over seeds; models and MB sent and received "
        "per peer",
        "head": ["strategy", *(column.title for column in columns), "seeds"],
        "rows": [
            [label, *(_cell(column, mine) for column in columns), str(len(mine))]
            for label, mine in outcomes.items()
        ],
        "best": subject.labels.index(best) if best else None,
    }


def _cell(column: Column, mine: Sequence[Outcome]) -> str:
    mean, width = confidence([column.ours(each) for each in mine])
    if math.isnan(mean):
        return "–"
    with_width = column.has_interval and not math.isnan(width)
    return f"{mean:{column.form}}" + (f" ± {width:{column.form}}" if with_width else "")


def _unfinished(subject: Subject) -> list[str]:
    return [
        f"{run.label} with seed {run.seed} has not finished: {run.recorded.last_round} of "
        f"{run.config.rounds} rounds are shown."
        for run in subject.runs
        if run.finished is None
    ]


def _is_going_on(run: FoundRun) -> bool:
    return run.finished is None and run.recorded.last_round < run.config.rounds


def _level(subject: Subject, value: float) -> str:
    return f"{_plain(subject, value)}%" if subject.is_accuracy else _plain(subject, value)


def _plain(subject: Subject, value: float) -> str:
    return f"{value:.1f}" if subject.is_accuracy else f"{value:.4g}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
