"""Compares published numbers with ours, and judges each: met, differs, or not run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from coterie.experiments.presets import find_preset
from coterie.experiments.published import published_figures, published_tables
from coterie.experiments.published.published_table import (
    PublishedFigure,
    PublishedResult,
    PublishedTable,
)
from coterie.experiments.run_summary import RunSummary
from coterie.results.published_comparison import describe_shortening
from coterie.results.statistics import confidence_interval
from coterie.runtime.round_metrics import known_mean

MEAN, PRECISION, RECALL = "mean", "precision", "recall"
NEIGHBOURS = (PRECISION, RECALL)
FEWEST_SEEDS = 3
"""With fewer seeds a confidence interval is too wide to be useful."""
NO_RUN = "not run yet"
Judgement: TypeAlias = Literal["met", "explained", "unexplained", "other setting", "not run"]
JUDGEMENTS: tuple[Judgement, ...] = ("met", "explained", "unexplained", "other setting", "not run")


@dataclass(frozen=True)
class ReproducedRun:
    """The results of one finished run; shares between 0 and 1; NaN: unknown."""

    summary: RunSummary
    precision: float = math.nan
    """The share of listed neighbours that are in the peer's true cluster."""
    recall: float = math.nan
    over_time: float = math.nan
    """Under drift: validation accuracy, or loss, as a mean over all rounds."""


@dataclass(frozen=True)
class Reproduction:
    """The finished runs of one experiment."""

    name: str
    preset: str
    rounds: int
    departures: tuple[str, ...]
    """How the runs differ from the published setting, a few words for each difference."""
    runs: tuple[ReproducedRun, ...]


@dataclass(frozen=True)
class ReproducedNumber:
    """One published number and ours; accuracies and shares in percent."""

    source: str
    preset: str
    strategy: str
    part: str
    """The mean, the precision or recall of neighbours, or the name of a cluster."""
    is_accuracy: bool
    published: float
    published_interval: float | None
    """Half the width of the 95% confidence interval."""
    reached: float | None = None
    interval: float | None = None
    num_seeds: int = 0
    allowed: float | None = None
    """The largest difference that counts as met."""
    judgement: Judgement = "not run"
    why: str = ""
    """Why the numbers differ, or why there is no run of the published setting."""
    experiment: str | None = None

    @property
    def is_headline(self) -> bool:
        """Whether the number counts in summaries; numbers of single clusters do not."""
        return self.part in (MEAN, *NEIGHBOURS)

    @property
    def is_comparable(self) -> bool:
        """Whether our number is of the published setting."""
        return self.judgement in ("met", "explained", "unexplained")


@dataclass(frozen=True)
class ReproducedFigure:
    """One published figure, in one of its settings, and our experiment."""

    source: str
    shows: str
    experiment: str
    judgement: Literal["met", "unexplained", "made", "not run"] = "not run"
    """Made: there is an experiment, and the figure claims no order of strategies."""
    why: str = ""


def judge_numbers(reproductions: Sequence[Reproduction]) -> list[ReproducedNumber]:
    """Return all published numbers with ours, in the order of the tables."""
    rows = []
    for table in published_tables().values():
        mine = [each for each in reproductions if each.preset == table.preset]
        for label, result in table.results.items():
            for part, value in _parts(table, result).items():
                rows.append(_row(table, label, part, value, mine))
    return rows


def _parts(table: PublishedTable, result: PublishedResult) -> dict[str, float]:
    """Return the published numbers of a strategy, by part."""
    values = {MEAN: result.mean, PRECISION: result.precision, RECALL: result.recall}
    values |= dict(zip(table.clusters, result.clusters, strict=False))
    return {part: value for part, value in values.items() if value is not None}


def _row(
    table: PublishedTable, label: str, part: str, value: float, mine: Sequence[Reproduction]
) -> ReproducedNumber:
    result = table.results[label]
    row = ReproducedNumber(
        source=table.source_of(part),
        preset=table.preset,
        strategy=label,
        part=part,
        is_accuracy=table.is_accuracy,
        published=value,
        published_interval=result.interval if part == MEAN else None,
        why=table.not_run or NO_RUN,
    )
    best = _best(table, label, part, mine)
    if best is None:
        return row
    mean, interval, num_seeds = reached_mean(table, best, label, part)
    departures = _departures(best, label, part)
    allowed = _allowed(table, row, interval, num_seeds)
    explained = result.explained or table.explained
    judgement: Judgement = "explained" if explained else "unexplained"
    why = explained or table.tried
    if departures:
        judgement, why = "other setting", "; ".join(departures)
    elif abs(mean - value) <= allowed:
        judgement, why = "met", ""
    return replace(
        row,
        reached=mean,
        interval=None if math.isnan(interval) else interval,
        num_seeds=num_seeds,
        allowed=allowed,
        judgement=judgement,
        why=why,
        experiment=best.name,
    )


def _best(
    table: PublishedTable, label: str, part: str, mine: Sequence[Reproduction]
) -> Reproduction | None:
    """Return the experiment that is closest to the published setting, then has most seeds."""
    known = [each for each in mine if not math.isnan(reached_mean(table, each, label, part)[0])]
    return min(
        known,
        key=lambda each: (
            len(_departures(each, label, part)),
            -reached_mean(table, each, label, part)[2],
            -each.rounds,
        ),
        default=None,
    )


def reached_mean(
    table: PublishedTable, each: Reproduction, label: str, part: str
) -> tuple[float, float, int]:
    """Return our mean over seeds, half the width of its interval, and the number of seeds."""
    values = [_value(table, run, part) for run in each.runs if run.summary.label == label]
    known = [value for value in values if not math.isnan(value)]
    return (*confidence_interval(known), len(known))


def _value(table: PublishedTable, run: ReproducedRun, part: str) -> float:
    summary = run.summary
    if part in NEIGHBOURS:
        return 100 * (run.precision if part == PRECISION else run.recall)
    scale = summary.score.scale
    if part == MEAN:
        over_clusters = table.mean_over == "clusters"
        return scale * (known_mean(summary.cluster_means) if over_clusters else summary.mean)
    by_name = dict(zip(summary.cluster_names, summary.cluster_means, strict=True))
    return scale * by_name.get(part, math.nan)


def _departures(each: Reproduction, label: str, part: str) -> tuple[str, ...]:
    """Return the differences that matter; PENS has all its neighbours after its first stage."""
    preset = find_preset(each.preset)
    (variant,) = preset.compared([label])
    first_stage = variant.strategy.get("exploration_rounds", math.inf)
    if part not in NEIGHBOURS or each.rounds < first_stage:
        return each.departures
    shorter = describe_shortening(each.rounds, preset.config.rounds)
    return tuple(departure for departure in each.departures if departure != shorter)


def _allowed(
    table: PublishedTable, row: ReproducedNumber, interval: float, num_seeds: int
) -> float:
    """Return the largest of the tolerance and the two confidence intervals."""
    unit = 1.0 if row.is_accuracy else row.published / 100
    ours = interval if num_seeds >= FEWEST_SEEDS else 0.0
    return max(table.tolerance * unit, ours, row.published_interval or 0.0)


def judge_figures(reproductions: Sequence[Reproduction]) -> list[ReproducedFigure]:
    """Return all published figures, once for each of their settings."""
    return [
        _figure_row(figure, name, rounds, reproductions)
        for figure in published_figures()
        for name, rounds in (figure.experiments or {"": 0}).items()
    ]


def _figure_row(
    figure: PublishedFigure, name: str, rounds: int, reproductions: Sequence[Reproduction]
) -> ReproducedFigure:
    row = ReproducedFigure(figure.source, figure.shows, name, why=figure.not_run or NO_RUN)
    mine = [each for each in reproductions if name in (each.name, each.preset)]
    if not mine:
        return row
    longest = max(mine, key=lambda each: (each.rounds, each.name == name))
    if longest.rounds < rounds:
        return replace(row, why=describe_shortening(longest.rounds, rounds))
    if not figure.best:
        return replace(row, judgement="made", why="")
    levels = mean_over_time(longest)
    if not {figure.best, *figure.below} <= levels.keys():
        return replace(row, why="some strategies have not been run")
    is_met = all(levels[figure.best] > levels[label] for label in figure.below)
    return replace(row, judgement="met" if is_met else "unexplained", why="")


def mean_over_time(each: Reproduction) -> dict[str, float]:
    """Return each strategy's mean accuracy over time; without drift, of the last test."""
    found: dict[str, list[float]] = {}
    for run in each.runs:
        level = run.summary.mean if math.isnan(run.over_time) else run.over_time
        found.setdefault(run.summary.label, []).append(level)
    return {label: known_mean(levels) for label, levels in found.items()}


@dataclass(frozen=True)
class JudgementCounts:
    """Counts of judgements for one published table in one setting."""

    source: str
    preset: str
    counts: Mapping[Judgement, int]
    why: tuple[str, ...] = ()
    """Explanations, and reasons why runs are missing; each once."""

    @property
    def num_rows(self) -> int:
        """The number of rows, without those of single clusters."""
        return sum(self.counts.values())


def count_judgements(rows: Sequence[ReproducedNumber]) -> list[JudgementCounts]:
    """Return one summary for each table and setting, in the order of the rows."""
    grouped: dict[tuple[str, str], list[ReproducedNumber]] = {}
    for row in rows:
        if row.is_headline:
            grouped.setdefault((row.source, row.preset), []).append(row)
    found = []
    for (source, preset), mine in sorted(grouped.items(), key=lambda item: item[0][0]):
        counts = {name: sum(row.judgement == name for row in mine) for name in JUDGEMENTS}
        why = tuple(dict.fromkeys(row.why for row in mine if row.why))
        found.append(JudgementCounts(source, preset, counts, why))
    return found


def as_data(
    rows: Sequence[ReproducedNumber], figures: Sequence[ReproducedFigure]
) -> dict[str, Any]:
    """Return everything as plain data, as `coterie papers --json` prints it."""
    return {
        "tables": [
            {**asdict(each), "rows": each.num_rows, "why": list(each.why)}
            for each in count_judgements(rows)
        ],
        "numbers": [asdict(row) for row in rows],
        "figures": [asdict(figure) for figure in figures],
    }
