"""The tables of a study: strategies × settings, one table per group and number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.reports.comparison_tables import UNFINISHED, UNKNOWN, TextRow, TextTable
from coterie.results.statistics import (
    TEST,
    confidence_interval,
    correct_p_values,
    paired_difference,
)
from coterie.studies.study_results import HARM, StudyResult

OURS = "kin"
"""The strategy that the others are compared with."""


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean without an interval."""
    return confidence_interval(values)[0], math.nan


def _least(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest of several times: other work of the computer only adds to them."""
    return min(values, default=math.nan), math.nan


@dataclass(frozen=True)
class Number:
    """A column of the results, and how it is shown."""

    title: str
    of: Callable[[StudyResult], float]
    form: str = ".2f"
    has_best: bool = False
    """Whether the best value of each setting is marked."""
    over_seeds: Callable[[Sequence[float]], tuple[float, float]] = confidence_interval
    """Returns the value for several seeds, and half the width of its interval or NaN."""


def _percent(of: Callable[[StudyResult], float]) -> Callable[[StudyResult], float]:
    return lambda result: 100 * of(result)


def _level(of: Callable[[StudyResult], float]) -> Callable[[StudyResult], float]:
    """Return accuracies in percent, squared errors unchanged."""
    return lambda result: of(result) * (100 if result.is_accuracy else 1)


TEST_RESULT = Number("test accuracy % at the end", _level(lambda each: each.test), has_best=True)
NUMBERS = (
    TEST_RESULT,
    Number(
        "test accuracy % by the other rule for the best model",
        _level(lambda each: each.test_other),
        has_best=True,
    ),
    Number(
        f"peers that end more than {100 * HARM:g} points below training alone, %",
        _percent(lambda each: each.harmed),
        over_seeds=_mean,
    ),
    Number(
        "what honest peers lose to poisoned ones, points",
        _level(lambda each: each.lost),
    ),
    Number(
        "fetched models from the own cluster around round 10, %",
        _percent(lambda each: each.own_cluster_10),
    ),
    Number(
        "fetched models from the own cluster around round 20, %",
        _percent(lambda each: each.own_cluster_20),
    ),
    Number(
        "peers whose model is never fetched, %",
        _percent(lambda each: each.never_fetched),
        over_seeds=_mean,
    ),
    Number(
        "test accuracy % over time, where data drift",
        _level(lambda each: each.over_time),
        has_best=True,
    ),
    Number("drop of validation accuracy at a shift, points", _level(lambda each: each.drop)),
    Number("rounds to regain 95% after a shift", lambda each: each.recovery_rounds, ".1f"),
    Number(
        "models sent and received per peer",
        lambda each: each.models_per_peer,
        ",.0f",
        over_seeds=_mean,
    ),
    Number(
        "CPU seconds of a round, the least of the seeds",
        lambda each: each.cpu_seconds,
        over_seeds=_least,
    ),
)


def group_sheets(
    found: Sequence[StudyResult], group: str, numbers: Sequence[Number] = NUMBERS
) -> list[TextTable]:
    """Return the tables of a group that are not empty."""
    mine = [each for each in found if each.group == group]
    sheets = [sheet(mine, group, number) for number in numbers]
    sheets.insert(1, advantage_sheet(mine, group))
    return [each for each in sheets if each.rows]


def sheet(found: Sequence[StudyResult], group: str, number: Number) -> TextTable:
    """Return one number as a table, strategies × settings: means over seeds with intervals."""
    known = [each for each in found if not math.isnan(number.of(each))]
    settings, strategies = _names(known)
    values = {
        (strategy, setting): [number.of(each) for each in known if _is(each, strategy, setting)]
        for strategy in strategies
        for setting in settings
    }
    best = {_best(known, values, setting) for setting in settings} if number.has_best else set()
    most = max((len(each) for each in values.values()), default=0)

    def cell(key: tuple[str, str]) -> str:
        text = _cell(*number.over_seeds(values[key]), number.form)
        fewer = UNFINISHED if 0 < len(values[key]) < most else ""
        return f"{text}{'*' if key in best else ''}{fewer}"

    rows = [
        TextRow((name, *(cell((name, setting)) for setting in settings))) for name in strategies
    ]
    notes = ["* the best of its column"] if number.has_best else []
    if any(UNFINISHED in text for row in rows for text in row.cells):
        notes.append(f"{UNFINISHED} fewer than {most} seeds")
    header = ("strategy", *(_titled(known, setting) for setting in settings))
    return TextTable(f"{group}: {number.title}", header, tuple(rows), tuple(notes))


def advantage_sheet(found: Sequence[StudyResult], group: str) -> TextTable:
    """Return how much better Kin is than each strategy, on the same seeds; stars: significant."""
    settings, strategies = _names(found)
    cells: dict[tuple[str, str], str] = {}
    for setting in settings:
        ours = _by_seed(found, OURS, setting)
        sign = 1.0 if _is_accuracy(found, setting) else -1.0
        differences = {
            strategy: difference
            for strategy in strategies
            if strategy != OURS
            and (difference := paired_difference(ours, _by_seed(found, strategy, setting)))
        }
        for strategy, each in correct_p_values(differences).items():
            cells[strategy, setting] = f"{_cell(sign * each.mean, each.width, '+.2f')}{each.mark}"
    rows = tuple(
        TextRow((strategy, *(cells.get((strategy, setting), UNKNOWN) for setting in settings)))
        for strategy in strategies
        if any((strategy, setting) in cells for setting in settings)
    )
    return TextTable(
        f"{group}: advantage of {OURS} at the end, on the same seeds",
        ("strategy", *(_titled(found, setting) for setting in settings)),
        rows,
        (f"Stars: significant by a {TEST}, corrected by Holm.",),
    )


def _names(found: Sequence[StudyResult]) -> tuple[list[str], list[str]]:
    """Return the names of the settings and of the strategies, in order."""
    settings = dict.fromkeys(each.setting for each in found)
    return list(settings), list(dict.fromkeys(each.strategy for each in found))


def _is(result: StudyResult, strategy: str, setting: str) -> bool:
    return (result.strategy, result.setting) == (strategy, setting)


def _by_seed(found: Sequence[StudyResult], strategy: str, setting: str) -> dict[int, float]:
    return {each.seed: TEST_RESULT.of(each) for each in found if _is(each, strategy, setting)}


def _best(
    found: Sequence[StudyResult], values: Mapping[tuple[str, str], Sequence[float]], setting: str
) -> tuple[str, str]:
    """Return the strategy and setting of the best mean of a column."""
    sign = 1.0 if _is_accuracy(found, setting) else -1.0
    column = [key for key in values if key[1] == setting and values[key]]
    return max(column, key=lambda key: sign * confidence_interval(values[key])[0])


def _titled(found: Sequence[StudyResult], setting: str) -> str:
    """Return the title of a column, which marks squared errors."""
    return setting if _is_accuracy(found, setting) else f"{setting} (MSE)"


def _is_accuracy(found: Sequence[StudyResult], setting: str) -> bool:
    return all(each.is_accuracy for each in found if each.setting == setting)


def _cell(mean: float, width: float, form: str) -> str:
    if math.isnan(mean):
        return UNKNOWN
    return f"{mean:{form}}" if math.isnan(width) else f"{mean:{form}} ± {width:{form.lstrip('+')}}"
