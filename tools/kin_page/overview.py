"""The first screen of docs/kin.md: strategies × settings, and Kin against each strategy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coterie.runtime.round_metrics import known_mean
from coterie.studies.study_results import StudyResult
from coterie.studies.study_tables import OURS
from kin_page.kept import KeptSetting
from reproduction_page.tables import markdown

COMPARED = ("local", "random", "pens", "dac", "panm", "hast", "oracle")
"""The strategies beside Kin; DAC with the temperature of its paper."""
TOLD = "oracle"
"""The strategy that knows the clusters, which no peer does in practice."""
MAIN = "main"
Measure: TypeAlias = Callable[[StudyResult], float]


def _scale(result: StudyResult) -> float:
    return 100.0 if result.is_accuracy else 1.0


def at_the_end(result: StudyResult) -> float:
    """Return the last test; accuracies in percent."""
    return result.test * _scale(result)


def by_other_rule(result: StudyResult) -> float:
    """Return the last test by the other rule for the best model."""
    return result.test_other * _scale(result)


def level(result: StudyResult) -> float:
    """Return what counts in a setting: the mean over time where data drift, or the last test."""
    usual = result.test if math.isnan(result.over_time) else result.over_time
    return usual * _scale(result)


@dataclass(frozen=True)
class Gain:
    """By how much Kin is better than a strategy in one setting, on the seeds of both."""

    setting: str
    other: str
    mean: float
    """Points of accuracy, or squared error; positive: Kin is better."""
    is_accuracy: bool
    seeds: int


def gains(kept: KeptSetting, measure: Measure, others: Sequence[str] = COMPARED) -> list[Gain]:
    """Return Kin's advantage over each strategy that has run in a setting."""
    ours = _by_seed(kept, OURS, measure)
    is_accuracy = kept.results[0].is_accuracy
    sign = 1.0 if is_accuracy else -1.0
    found = []
    for other in others:
        theirs = _by_seed(kept, other, measure)
        seeds = sorted(ours.keys() & theirs.keys())
        if seeds:
            mean = known_mean([sign * (ours[seed] - theirs[seed]) for seed in seeds])
            found.append(Gain(kept.made.setting, other, mean, is_accuracy, len(seeds)))
    return found


def _by_seed(kept: KeptSetting, strategy: str, measure: Measure) -> dict[int, float]:
    return {
        result.seed: measure(result)
        for result in kept.results
        if result.strategy == strategy and not math.isnan(measure(result))
    }


def overview(kept: Sequence[KeptSetting]) -> str:
    """Return the table of strategies × settings; the best of each setting is bold."""
    titles = ["setting", *COMPARED, OURS, "seeds", f"{OURS} − {TOLD}", f"{OURS} − best other"]
    rows = [_line(each) for each in kept if each.made.group == MAIN]
    return markdown(titles, rows)


def _line(kept: KeptSetting) -> list[str]:
    levels = {name: _by_seed(kept, name, level) for name in (*COMPARED, OURS)}
    means = {name: known_mean(list(values.values())) for name, values in levels.items() if values}
    is_accuracy = kept.results[0].is_accuracy
    best = (max if is_accuracy else min)(means, key=lambda name: means[name])
    num_seeds = len(levels[OURS])
    form = ".1f" if is_accuracy else ".2f"

    def cell(name: str) -> str:
        if name not in means:
            return "–"
        text = f"{means[name]:{form}}"
        fewer = "†" if len(levels[name]) < num_seeds else ""
        return f"**{text}**{fewer}" if name == best else f"{text}{fewer}"

    against = {gain.other: gain for gain in gains(kept, level)}
    told = against.pop(TOLD, None)
    closest = min(against.values(), key=lambda gain: gain.mean, default=None)
    return [
        kept.made.setting + ("" if is_accuracy else " (squared error)"),
        *map(cell, (*COMPARED, OURS)),
        str(num_seeds),
        "–" if told is None else f"{told.mean:+{form}}",
        "–" if closest is None else f"{closest.mean:+{form}} ({closest.other})",
    ]


def against_each(kept: Sequence[KeptSetting]) -> str:
    """Return in how many settings Kin is better than each strategy, by both rules."""
    main = [each for each in kept if each.made.group == MAIN]
    rules: Mapping[str, Measure] = {"as preset": at_the_end, "other": by_other_rule}
    rows = []
    for other in COMPARED:
        for rule, measure in rules.items():
            found = [gain for each in main for gain in gains(each, measure, [other])]
            points = [gain for gain in found if gain.is_accuracy]
            if points:
                least = min(points, key=lambda gain: gain.mean)
                most = max(points, key=lambda gain: gain.mean)
                better = sum(gain.mean > 0 for gain in found)
                ends = [f"{gain.mean:+.1f} ({gain.setting})" for gain in (least, most)]
                rows.append([other, rule, f"{better} of {len(found)}", *ends])
    titles = ["against", "best model", "settings where Kin is better", "least points"]
    return markdown([*titles, "most points"], rows, texts=("best model",))


def worst_poison(kept: Sequence[KeptSetting]) -> str:
    """Return a sentence about the poison that costs honest peers most under Kin."""
    found = [
        (result.lost * _scale(result), result.strategy.removeprefix(f"{OURS}-"), each.made.setting)
        for each in kept
        for result in each.results
        if result.strategy.startswith(f"{OURS}-") and not math.isnan(result.lost)
    ]
    if not found:
        return "No run among poisoned peers is kept."
    lost, kind, setting = max(found)
    return f"The poison that costs honest peers most is `{kind}`: {lost:.1f} points in `{setting}`."


def all_peers(kept: Sequence[KeptSetting]) -> str:
    """Return Kin and Oracle by both rules where no peer is left out and none is poisoned."""
    rows = []
    for each in kept:
        is_smaller = any(" peers" in departure for departure in each.made.departures)
        if each.made.group != "poison" or is_smaller:
            continue
        for name in (TOLD, OURS):
            values = [
                known_mean(list(_by_seed(each, name, measure).values()))
                for measure in (at_the_end, by_other_rule)
            ]
            result = each.results[0]
            sizes = [str(result.peers), str(result.rounds), str(len(_by_seed(each, name, level)))]
            rows.append([each.made.setting, name, *sizes, *(f"{value:.1f}" for value in values)])
    titles = ["setting", "strategy", "peers", "rounds", "seeds", "as preset", "other rule"]
    return markdown(titles, rows, texts=("strategy",))
