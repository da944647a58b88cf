"""Which strategy did best, as far as the runs can tell, and how the yardsticks compare.

Strategies are compared in pairs, over the seeds that both have, as `coterie compare` does; with a
single seed over its peers. A strategy is best only if its difference to every other is clear: if
the 95% interval leaves out 0. Strategies that have what peers lack in practice do not compete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import once_per_run
from coterie.results.statistics import MIN_SEEDS, Difference, confidence_interval, paired_difference

MAX_NAMED = 3
"""How many strategies a sentence lists that the first one does not clearly beat."""

FEW_SEEDS = 3
"""With fewer seeds even large differences have intervals that include 0."""


@dataclass(frozen=True)
class Gap:
    """By how much one strategy is better than another; accuracies in points."""

    other: str
    better: float
    width: float
    """Half width of the 95% interval; NaN where it is unknown."""
    num_seeds: int
    """0: they have no seed in common."""
    num_peers: int = 0
    """How many peers the interval is over, if it is not over seeds."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return abs(self.better) > self.width


@dataclass(frozen=True)
class Standing:
    """Who leads among the strategies that compete, and how far ahead."""

    levels: dict[str, float]
    """The mean of each strategy whose runs have all been tested to the end."""
    competing: tuple[str, ...]
    """Best first."""
    yardsticks: tuple[str, ...]
    gaps: tuple[Gap, ...]
    """From the first to each other one that competes, in their order."""

    @property
    def unclear(self) -> tuple[Gap, ...]:
        """The gaps to those that the first one does not clearly beat."""
        return tuple(gap for gap in self.gaps if not (gap.is_clear and gap.better > 0))

    @property
    def best(self) -> str | None:
        """The strategy that is clearly better than all others that compete; None if none is."""
        return self.competing[0] if self.gaps and not self.unclear else None


def standing(subject: Subject) -> Standing:
    """Compare the strategies whose runs have finished; others may be at different rounds."""
    sign = 1.0 if subject.is_accuracy else -1.0
    levels = {
        label: confidence_interval([run.summary.mean for run in runs])[0]
        for label, runs in subject.by_label.items()
        if not any(map(is_going_on, runs))
    }
    tested = [label for label in levels if not math.isnan(levels[label])]
    ranked = sorted(tested, key=lambda label: -sign * levels[label])
    competing = tuple(label for label in ranked if not subject.advantage(label))
    return Standing(
        levels,
        competing,
        tuple(label for label in ranked if subject.advantage(label)),
        tuple(gap(subject, competing[0], other) for other in competing[1:]),
    )


def is_going_on(run: RunFolder) -> bool:
    """Whether a run has rounds before it."""
    return run.finished is None and run.last_round < run.config.rounds


def gap(subject: Subject, label: str, other: str) -> Gap:
    """Compare two strategies on their common seeds; on a single one, over its peers."""
    ours, theirs = ({run.seed: run for run in subject.by_label[each]} for each in (label, other))
    seeds = [seed for seed in ours if seed in theirs]
    found = paired_difference(
        {seed: ours[seed].summary.mean for seed in seeds},
        {seed: theirs[seed].summary.mean for seed in seeds},
    )
    if found is None:
        return Gap(other, math.nan, math.nan, 0)
    if found.num_pairs >= MIN_SEEDS:
        return _gap(subject, other, found, found.num_pairs)
    over_peers = paired_difference(_by_peer(ours[seeds[0]]), _by_peer(theirs[seeds[0]]))
    if over_peers is None:
        return _gap(subject, other, found, 1)
    return _gap(subject, other, over_peers, 1, over_peers.num_pairs)


def _gap(
    subject: Subject, other: str, found: Difference, num_seeds: int, num_peers: int = 0
) -> Gap:
    sign, scale = (1.0, 100.0) if subject.is_accuracy else (-1.0, 1.0)
    return Gap(other, sign * scale * found.mean, scale * found.width, num_seeds, num_peers)


@once_per_run
def _by_peer(run: RunFolder) -> dict[int, float]:
    """Return the last test result of each peer."""
    metrics = run.table("metrics")
    rows = metrics.filter(np.equal(metrics["round"].to_numpy(), run.last_tested))
    column = f"test_{'accuracy' if run.is_accuracy else 'loss'}"
    return dict(zip(rows["peer"].to_pylist(), rows[column].to_pylist(), strict=True))


def headline(subject: Subject, found: Standing) -> list[str]:
    """Say which strategy did best, or that none clearly did, and what the yardsticks reached."""
    if not found.competing and not found.yardsticks:
        return ["Strategies are compared once their runs have finished."]
    first = " ".join([*_about_unfinished(subject), *_about_first(subject, found)])
    said = (first, _about_intervals(found.gaps), _about_yardsticks(subject, found))
    return [each for each in said if each]


def _about_unfinished(subject: Subject) -> list[str]:
    if not any(map(is_going_on, subject.runs)):
        return []
    return ["Some runs still go on; only those that have finished are compared."]


def _about_first(subject: Subject, found: Standing) -> list[str]:
    if not found.competing:
        return []
    first = found.competing[0]
    level = _level(subject, found.levels[first])
    if not found.gaps:
        return [f"{first} reached {_measure(subject)} {level}."]
    if found.best is not None:
        shown = [found.gaps[0], *(gap for gap in found.gaps[1:] if gap.other == subject.alone)]
        seed = " with this one seed" if max(gap.num_seeds for gap in found.gaps) == 1 else ""
        said = f"{first} did best{seed}: {_measure(subject)} {level}, {_joined(subject, shown)}."
    else:
        where = "highest" if subject.is_accuracy else "lowest"
        unclear = found.unclear
        others = _unclear(subject, unclear[:MAX_NAMED])
        more = f", nor to {len(unclear) - MAX_NAMED} more" if len(unclear) > MAX_NAMED else ""
        shown = [gap for gap in found.gaps if gap not in unclear and gap.other == subject.alone]
        alone = f" It is {_joined(subject, shown)}." if shown else ""
        said = (
            f"No strategy is clearly best. {first} has the {where} {_measure(subject)}, {level}: "
            f"{others}{more}.{alone}"
        )
    return [said]


def _about_intervals(gaps: Sequence[Gap]) -> str | None:
    """Say what the numbers after ± are, and what they leave out."""
    seeds = sorted({gap.num_seeds for gap in gaps if gap.num_seeds >= MIN_SEEDS})
    peers = max((gap.num_peers for gap in gaps), default=0)
    said = "± is the 95% interval of the difference, paired over"
    if seeds:
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        alone = (
            f"; with a single common seed over its {peers} peers, which says nothing about the "
            "luck of the seed"
        )
        few = " Few seeds make wide intervals: run more with --seeds." * (seeds[0] < FEW_SEEDS)
        return f"{said} {count} seeds{alone if peers else ''}.{few}"
    if peers < MIN_SEEDS:
        return None
    return (
        f"{said} the {peers} peers of one seed. One seed says nothing about the luck of the seed: "
        "run more with --seeds."
    )


def _about_yardsticks(subject: Subject, found: Standing) -> str | None:
    if not found.yardsticks:
        return None
    first = found.competing[0] if found.competing else None
    said = []
    for label in found.yardsticks:
        level = _level(subject, found.levels[label])
        text = f"{label} ({subject.advantage(label)}) reached {level}"
        text += f", {_against(subject, gap(subject, label, first))}" if first else ""
        said.append(text)
    return f"Yardsticks, not competitors: {'; '.join(said)}. {_what_peers_lack(subject, found)}"


def _what_peers_lack(subject: Subject, found: Standing) -> str:
    told = any(map(subject.is_told, found.yardsticks))
    served = any(map(subject.has_server, found.yardsticks))
    if told and served:
        return "In practice no peer knows the true clusters, and there is no server."
    if told:
        return "In practice no peer knows the true clusters."
    return "Without a server they cannot run."


def _joined(subject: Subject, gaps: Sequence[Gap]) -> str:
    return " and ".join(_against(subject, gap) for gap in gaps)


def _unclear(subject: Subject, gaps: Sequence[Gap]) -> str:
    """Name those that the first strategy does not clearly beat."""
    equal = [f"{gap.other} ({_size(subject, gap)})" for gap in gaps if _may_be_luck(gap)]
    others = [_against(subject, gap) for gap in gaps if not _may_be_luck(gap)]
    return "; ".join([f"no clear difference to {' or '.join(equal)}"] * bool(equal) + others)


def _may_be_luck(gap: Gap) -> bool:
    return bool(gap.num_seeds) and not gap.is_clear


def _against(subject: Subject, gap: Gap) -> str:
    """Write a gap: how much better or worse, or that it is not clear."""
    if not gap.num_seeds:
        return f"not comparable with {gap.other}, for want of a common seed"
    if not gap.is_clear:
        return f"no clear difference to {gap.other} ({_size(subject, gap)})"
    how = "better" if gap.better > 0 else "worse"
    return f"{_size(subject, gap).lstrip('+−')} {how} than {gap.other}"


def _size(subject: Subject, gap: Gap) -> str:
    """Write how much better with its sign; a squared error that is smaller is better."""
    if gap.better == gap.width == 0:
        return "equal results"
    sign = "−" if gap.better < 0 else "+"
    width = "" if math.isnan(gap.width) else f" ± {_plain(subject, gap.width)}"
    return f"{sign}{_plain(subject, abs(gap.better))}{width}{' points' * subject.is_accuracy}"


def _measure(subject: Subject) -> str:
    return "test accuracy" if subject.is_accuracy else "test error (MSE)"


def _level(subject: Subject, value: float) -> str:
    return f"{value:.1%}" if subject.is_accuracy else _plain(subject, value)


def _plain(subject: Subject, value: float) -> str:
    return f"{value:.1f}" if subject.is_accuracy else f"{value:.4g}"
