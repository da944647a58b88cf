"""Published numbers beside ours, each with a judgement: met, differs, or not run."""

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
from coterie.experiments.run_summary import RunSummary, known_mean
from coterie.results.published_comparison import shortened
from coterie.results.statistics import confidence

MEAN, PRECISION, RECALL = "mean", "precision", "recall"
NEIGHBOURS = (PRECISION, RECALL)
FEWEST_SEEDS = 3
"""Seeds below which a confidence interval is too wide to say anything."""
NO_RUN = "not run yet"
Judgement: TypeAlias = Literal["met", "explained", "unexplained", "other setting", "not run"]
JUDGEMENTS: tuple[Judgement, ...] = ("met", "explained", "unexplained", "other setting", "not run")


@dataclass(frozen=True)
class ReproducedRun:
    """What one finished run reached; shares between 0 and 1, NaN is unknown."""

    summary: RunSummary
    precision: float = math.nan
    """Of the neighbours found, the share that is of the peer's true cluster."""
    recall: float = math.nan
    over_time: float = math.nan
    """Where data drift: validation accuracy, or loss, as a mean over all rounds."""


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
class Row:
    """One published number beside ours; accuracies and shares in percent."""

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
    """The explanation of a difference, or why there is no run of the published setting."""
    experiment: str | None = None

    @property
    def is_headline(self) -> bool:
        """Whether the number counts in summaries; those of single clusters do not."""
        return self.part in (MEAN, *NEIGHBOURS)

    @property
    def is_comparable(self) -> bool:
        """Whether our number is of the published setting."""
        return self.judgement in ("met", "explained", "unexplained")


@dataclass(frozen=True)
class FigureRow:
    """One published figure, in one of the settings it shows, and our counterpart."""

    source: str
    shows: str
    experiment: str
    judgement: Literal["met", "unexplained", "made", "not run"] = "not run"
    """Made: there is a counterpart, and the figure claims no order of strategies."""
    why: str = ""


def judge(reproductions: Sequence[Reproduction]) -> list[Row]:
    """Return every number of every published table, in the order of the tables."""
    rows = []
    for table in published_tables().values():
        mine = [each for each in reproductions if each.preset == table.preset]
        for label, result in table.results.items():
            for part, value in _parts(table, result).items():
                rows.append(_row(table, label, part, value, mine))
    return rows


def _parts(table: PublishedTable, result: PublishedResult) -> dict[str, float]:
    """Return the published numbers of a strategy by what they are about."""
    values = {MEAN: result.mean, PRECISION: result.precision, RECALL: result.recall}
    values |= dict(zip(table.clusters, result.clusters, strict=False))
    return {part: value for part, value in values.items() if value is not None}


def _row(
    table: PublishedTable, label: str, part: str, value: float, mine: Sequence[Reproduction]
) -> Row:
    result = table.results[label]
    row = Row(
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
    mean, interval, num_seeds = reached(table, best, label, part)
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
    """Return the experiment with the fewest departures, and of several the most seeds."""
    known = [each for each in mine if not math.isnan(reached(table, each, label, part)[0])]
    return min(
        known,
        key=lambda each: (
            len(_departures(each, label, part)),
            -reached(table, each, label, part)[2],
            -each.rounds,
        ),
        default=None,
    )


def reached(
    table: PublishedTable, each: Reproduction, label: str, part: str
) -> tuple[float, float, int]:
    """Return our mean over seeds, half the width of its interval, and how many seeds there are."""
    values = [_value(table, run, part) for run in each.runs if run.summary.label == label]
    known = [value for value in values if not math.isnan(value)]
    return (*confidence(known), len(known))


def _value(table: PublishedTable, run: ReproducedRun, part: str) -> float:
    summary = run.summary
    if part in NEIGHBOURS:
        return 100 * (run.precision if part == PRECISION else run.recall)
    scale = 100.0 if summary.is_accuracy else 1.0
    if part == MEAN:
        over_clusters = table.mean_over == "clusters"
        return scale * (known_mean(summary.cluster_means) if over_clusters else summary.mean)
    by_name = dict(zip(summary.cluster_names, summary.cluster_means, strict=True))
    return scale * by_name.get(part, math.nan)


def _departures(each: Reproduction, label: str, part: str) -> tuple[str, ...]:
    """Return the departures that matter; PENS has all its neighbours after its first stage."""
    preset = find_preset(each.preset)
    (variant,) = preset.compared([label])
    first_stage = variant.strategy.get("exploration_rounds", math.inf)
    if part not in NEIGHBOURS or each.rounds < first_stage:
        return each.departures
    shorter = shortened(each.rounds, preset.config.rounds)
    return tuple(departure for departure in each.departures if departure != shorter)


def _allowed(table: PublishedTable, row: Row, interval: float, num_seeds: int) -> float:
    """Return the largest of the tolerance and the confidence intervals, ours and theirs."""
    unit = 1.0 if row.is_accuracy else row.published / 100
    ours = interval if num_seeds >= FEWEST_SEEDS else 0.0
    return max(table.tolerance * unit, ours, row.published_interval or 0.0)


def judge_figures(reproductions: Sequence[Reproduction]) -> list[FigureRow]:
    """Return every published figure in every setting that it shows."""
    return [
        _figure_row(figure, name, rounds, reproductions)
        for figure in published_figures()
        for name, rounds in (figure.experiments or {"": 0}).items()
    ]


def _figure_row(
    figure: PublishedFigure, name: str, rounds: int, reproductions: Sequence[Reproduction]
) -> FigureRow:
    row = FigureRow(figure.source, figure.shows, name, why=figure.not_run or NO_RUN)
    mine = [each for each in reproductions if name in (each.name, each.preset)]
    if not mine:
        return row
    longest = max(mine, key=lambda each: (each.rounds, each.name == name))
    if longest.rounds < rounds:
        return replace(row, why=shortened(longest.rounds, rounds))
    if not figure.best:
        return replace(row, judgement="made", why="")
    levels = over_time(longest)
    if not {figure.best, *figure.below} <= levels.keys():
        return replace(row, why="some strategies have not been run")
    is_met = all(levels[figure.best] > levels[label] for label in figure.below)
    return replace(row, judgement="met" if is_met else "unexplained", why="")


def over_time(each: Reproduction) -> dict[str, float]:
    """Return the mean accuracy over time by strategy; without drift, that of the last test."""
    found: dict[str, list[float]] = {}
    for run in each.runs:
        level = run.summary.mean if math.isnan(run.over_time) else run.over_time
        found.setdefault(run.summary.label, []).append(level)
    return {label: known_mean(levels) for label, levels in found.items()}


@dataclass(frozen=True)
class Summary:
    """Counts of judgements for one published table in one setting."""

    source: str
    preset: str
    counts: Mapping[Judgement, int]
    why: tuple[str, ...] = ()
    """Explanations, and why something has not been run; each once."""

    @property
    def num_rows(self) -> int:
        """How many numbers the table has, without those of single clusters."""
        return sum(self.counts.values())


def summarise(rows: Sequence[Row]) -> list[Summary]:
    """Return one summary for each table and setting, in the order of the rows."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.is_headline:
            grouped.setdefault((row.source, row.preset), []).append(row)
    found = []
    for (source, preset), mine in sorted(grouped.items(), key=lambda item: item[0][0]):
        counts = {name: sum(row.judgement == name for row in mine) for name in JUDGEMENTS}
        why = tuple(dict.fromkeys(row.why for row in mine if row.why))
        found.append(Summary(source, preset, counts, why))
    return found


def as_data(rows: Sequence[Row], figures: Sequence[FigureRow]) -> dict[str, Any]:
    """Return everything as plain data, as `coterie papers --json` prints it."""
    return {
        "tables": [
            {**asdict(each), "rows": each.num_rows, "why": list(each.why)}
            for each in summarise(rows)
        ],
        "numbers": [asdict(row) for row in rows],
        "figures": [asdict(figure) for figure in figures],
    }
