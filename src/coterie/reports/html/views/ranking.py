"""Which strategy did best, and how the yardsticks compare: numbers and sentences.

Strategies are compared in pairs over their common seeds, as `coterie compare` does. With a single
common seed they are compared over its peers. A strategy is best only if it is better than every
competitor and the 95% intervals of the differences exclude 0. Yardsticks do not compete: they know
the true clusters or have a server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import cache_per_run
from coterie.results.statistics import MIN_SEEDS, confidence_interval, paired_difference

MAX_NAMED = 3
"""Maximum number of strategies in the list of unclear differences."""

FEW_SEEDS = 3
"""With fewer seeds the intervals of even large differences include 0."""


@dataclass(frozen=True)
class Gap:
    """How much better one strategy is than another; shares in points."""

    other: str
    better: float
    width: float
    """Half width of the 95% interval; NaN where it is unknown."""
    num_seeds: int
    """0 if they have no common seed."""
    num_peers: int = 0
    """The number of peers if the interval is over peers; 0 if it is over seeds."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return abs(self.better) > self.width


@dataclass(frozen=True)
class Ranking:
    """The order of the competing strategies, and how far the first one is ahead."""

    levels: dict[str, float]
    """The mean of each strategy whose runs have all finished."""
    competing: tuple[str, ...]
    """Best first."""
    yardsticks: tuple[str, ...]
    gaps: tuple[Gap, ...]
    """How much better the first competitor is than each other competitor."""

    @property
    def unclear(self) -> tuple[Gap, ...]:
        """The gaps to competitors that are not clearly worse than the first."""
        return tuple(gap for gap in self.gaps if not (gap.is_clear and gap.better > 0))

    @property
    def best(self) -> str | None:
        """The competitor that is clearly better than all others; None if there is none."""
        return self.competing[0] if self.gaps and not self.unclear else None


def rank_strategies(group: RunGroup) -> Ranking:
    """Rank the strategies whose runs have finished; others may be at different rounds."""
    sign = group.score.sign
    levels = {
        label: confidence_interval([run.summary.mean for run in runs])[0]
        for label, runs in group.runs_by_label.items()
        if not any(map(has_rounds_left, runs))
    }
    tested = [label for label in levels if not math.isnan(levels[label])]
    ranked = sorted(tested, key=lambda label: -sign * levels[label])
    competing = tuple(label for label in ranked if not group.advantage(label))
    return Ranking(
        levels,
        competing,
        tuple(label for label in ranked if group.advantage(label)),
        tuple(measure_gap(group, competing[0], other) for other in competing[1:]),
    )


def has_rounds_left(run: RunFolder) -> bool:
    """Whether a run has not finished and has rounds left."""
    return run.finished is None and run.last_round < run.config.rounds


def measure_gap(group: RunGroup, label: str, other: str) -> Gap:
    """Compare two strategies over their common seeds; with a single one, over its peers."""
    ours, theirs = ({run.seed: run for run in group.runs_by_label[each]} for each in (label, other))
    seeds = [seed for seed in ours if seed in theirs]
    difference = paired_difference(
        {seed: ours[seed].summary.mean for seed in seeds},
        {seed: theirs[seed].summary.mean for seed in seeds},
    )
    if difference is None:
        return Gap(other, math.nan, math.nan, 0)
    num_seeds, num_peers = difference.num_pairs, 0
    if num_seeds < MIN_SEEDS:
        over_peers = paired_difference(_by_peer(ours[seeds[0]]), _by_peer(theirs[seeds[0]]))
        if over_peers is not None:
            difference, num_peers = over_peers, over_peers.num_pairs
    sign, scale = group.score.sign, group.score.scale
    better, width = sign * scale * difference.mean, scale * difference.width
    return Gap(other, better, width, num_seeds, num_peers)


@cache_per_run
def _by_peer(run: RunFolder) -> dict[int, float]:
    """Return the last test result of each peer."""
    metrics = run.table("metrics")
    rows = metrics.filter(np.equal(metrics["round"].to_numpy(), run.last_tested))
    return dict(zip(rows["peer"].to_pylist(), rows["test_score"].to_pylist(), strict=True))


def write_headline(group: RunGroup, ranking: Ranking) -> list[str]:
    """Return sentences: the best strategy, or that none is clearly best, and the yardsticks."""
    if not ranking.competing and not ranking.yardsticks:
        return ["Strategies are compared once their runs have finished."]
    first = " ".join([*_about_unfinished(group), *_about_first(group, ranking)])
    sentences = (first, _about_intervals(ranking.gaps), _about_yardsticks(group, ranking))
    return [each for each in sentences if each]


def _about_unfinished(group: RunGroup) -> list[str]:
    if not any(map(has_rounds_left, group.runs)):
        return []
    return ["Some runs have not finished. Only finished runs are compared."]


def _about_first(group: RunGroup, ranking: Ranking) -> list[str]:
    if not ranking.competing:
        return []
    first = ranking.competing[0]
    level = group.score.format(ranking.levels[first])
    if not ranking.gaps:
        return [f"{first} reached {_measure_name(group)} {level}."]
    if ranking.best is not None:
        shown = [
            ranking.gaps[0],
            *(gap for gap in ranking.gaps[1:] if gap.other == group.local_label),
        ]
        seed = " with this one seed" if max(gap.num_seeds for gap in ranking.gaps) == 1 else ""
        text = (
            f"{first} did best{seed}: {_measure_name(group)} {level}, {_join_gaps(group, shown)}."
        )
    else:
        where = "highest" if group.score.higher_is_better else "lowest"
        unclear = ranking.unclear
        others = _list_unclear(group, unclear[:MAX_NAMED])
        more = f", nor to {len(unclear) - MAX_NAMED} more" if len(unclear) > MAX_NAMED else ""
        shown = [
            gap for gap in ranking.gaps if gap not in unclear and gap.other == group.local_label
        ]
        alone = f" It is {_join_gaps(group, shown)}." if shown else ""
        text = (
            f"No strategy is clearly best. {first} has the {where} {_measure_name(group)}, "
            f"{level}: {others}{more}.{alone}"
        )
    return [text]


def _about_intervals(gaps: Sequence[Gap]) -> str | None:
    """Return a sentence about the numbers after ±."""
    seeds = sorted({gap.num_seeds for gap in gaps if gap.num_seeds >= MIN_SEEDS})
    peers = max((gap.num_peers for gap in gaps), default=0)
    text = "± is the 95% interval of the difference, paired over"
    if seeds:
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        single = (
            f" With a single common seed it is paired over its {peers} peers, which says nothing "
            "about other seeds."
        )
        few = " Few seeds make wide intervals: use more seeds." * (seeds[0] < FEW_SEEDS)
        return f"{text} {count} seeds.{single if peers else ''}{few}"
    if peers < MIN_SEEDS:
        return None
    return (
        f"{text} the {peers} peers of one seed. This says nothing about other seeds: use more "
        "seeds."
    )


def _about_yardsticks(group: RunGroup, ranking: Ranking) -> str | None:
    if not ranking.yardsticks:
        return None
    first = ranking.competing[0] if ranking.competing else None
    results = []
    for label in ranking.yardsticks:
        level = group.score.format(ranking.levels[label])
        text = f"{label} ({group.advantage(label)}) reached {level}"
        text += f", {_describe_gap(group, measure_gap(group, label, first))}" if first else ""
        results.append(text)
    return (
        f"Yardsticks, not competitors: {'; '.join(results)}. {_explain_yardsticks(group, ranking)}"
    )


def _explain_yardsticks(group: RunGroup, ranking: Ranking) -> str:
    runs = [group.runs_by_label[label][0] for label in ranking.yardsticks]
    if not any(run.uses_ground_truth for run in runs):
        return "They need a server."
    also = ", and there is no server" if any(run.has_server for run in runs) else ""
    return f"In practice no peer knows the true clusters{also}."


def _join_gaps(group: RunGroup, gaps: Sequence[Gap]) -> str:
    return " and ".join(_describe_gap(group, gap) for gap in gaps)


def _list_unclear(group: RunGroup, gaps: Sequence[Gap]) -> str:
    """List strategies that are not clearly worse than the first."""
    equal = [f"{gap.other} ({_format_gap(group, gap)})" for gap in gaps if _is_unclear(gap)]
    others = [_describe_gap(group, gap) for gap in gaps if not _is_unclear(gap)]
    return "; ".join([f"no clear difference to {' or '.join(equal)}"] * bool(equal) + others)


def _is_unclear(gap: Gap) -> bool:
    return bool(gap.num_seeds) and not gap.is_clear


def _describe_gap(group: RunGroup, gap: Gap) -> str:
    """Return a gap in words: better, worse, or not clear."""
    if not gap.num_seeds:
        return f"not comparable with {gap.other}, because they have no common seed"
    if not gap.is_clear:
        return f"no clear difference to {gap.other} ({_format_gap(group, gap)})"
    how = "better" if gap.better > 0 else "worse"
    return f"{_format_gap(group, gap).lstrip('+−')} {how} than {gap.other}"


def _format_gap(group: RunGroup, gap: Gap) -> str:
    """Return a gap as a signed number; plus is better, also for errors."""
    if gap.better == gap.width == 0:
        return "equal results"
    sign = "−" if gap.better < 0 else "+"
    width = "" if math.isnan(gap.width) else f" ± {group.score.format_number(gap.width)}"
    points = " points" * group.score.is_share
    return f"{sign}{group.score.format_number(abs(gap.better))}{width}{points}"


def _measure_name(group: RunGroup) -> str:
    return f"test {group.score.name}"
