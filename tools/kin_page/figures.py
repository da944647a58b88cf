"""The figures of docs/kin.md, from what is kept of a study."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.reports.colours import GREY, HELPED, strategy_colour
from coterie.reports.figures.curve_figures import draw_curve, label_first_column, scale_errors
from coterie.reports.figures.style import (
    MARKERS,
    PAGE,
    add_legend,
    clean_name,
    format_round_axis,
    new_figure,
    new_panels,
    strategy_line,
    use_style,
)
from coterie.results.statistics import confidence
from coterie.studies.results import Result
from kin_page.kept import DRAWN, KeptSetting
from kin_page.overview import MAIN, Gain, gains, level
from make_pictures import PICTURES, WIDTH, save_picture

CURVES = {
    "kin-curves": ("validation", "validation (%)"),
    "kin-own-cluster": ("own cluster", "own cluster (%)"),
}
DOTS = {"kin-ablation": "ablation", "kin-poison": "poison", "kin-conditions": "conditions"}
"""Figures of final results, and the groups they show."""
OVERVIEW = "kin-overview"
CAPTIONS = {
    OVERVIEW: "Advantage of Kin over each strategy in each setting, points of accuracy",
    "kin-curves": "Validation over rounds in each setting, mean and range of the seeds",
    "kin-own-cluster": "The share of fetched models that came from the own cluster, over rounds",
    "kin-ablation": "Test results of Kin without each of its parts",
    "kin-poison": "What honest peers lose to poisoned ones, in points of test accuracy",
    "kin-conditions": "Test results under unusual conditions",
}
NUM_COLOURS = 128
"""Enough for lines and bands; more would make files of many panels too large to keep."""
PER_ROW = 4
"""How many panels stand side by side."""
LEAST_SPAN = 8.0
"""How many points a panel shows at least, where it has a scale of its own."""
SHOWN_GAINS = ("random", "pens", "dac", "panm", "hast", "oracle")
POINTS = (-1, 0, 1, 3, 10, 30)
"""The ticks of the first picture."""
ROW_HEIGHT = 0.15
"""Inches for each strategy."""


def draw(kept: Sequence[KeptSetting], folder: Path = PICTURES) -> list[str]:
    """Draw all figures there is something for; return their names."""
    names = []
    with use_style():
        if found := [gain for each in kept for gain in _overview_gains(each)]:
            _save(_overview(found), folder, OVERVIEW)
            names.append(OVERVIEW)
        for name, (kind, title) in CURVES.items():
            shown = [each for each in kept if any(one.kind == kind for one in each.made.curves)]
            if shown:
                _save(_curves(shown, kind, title), folder, name)
                names.append(name)
        for name, group in DOTS.items():
            shown = [each for each in kept if each.made.group == group and _labels(each)]
            if shown:
                _save(_dots(shown), folder, name)
                names.append(name)
    return names


def _save(figure: Figure, folder: Path, name: str) -> None:
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    save_picture(file.getvalue(), name, WIDTH, folder, NUM_COLOURS)


def _overview_gains(kept: KeptSetting) -> list[Gain]:
    """Return what the first picture shows; squared errors have another scale."""
    is_shown = kept.made.group == MAIN and kept.results[0].is_accuracy
    return gains(kept, level, SHOWN_GAINS) if is_shown else []


def _overview(found: Sequence[Gain]) -> Figure:
    """Draw Kin's advantage, one line per setting; beyond a point on a logarithmic scale."""
    settings = list(dict.fromkeys(gain.setting for gain in found))
    figure = new_figure(PAGE, max(ROW_HEIGHT * 1.4 * len(settings) + 0.9, 1.6))
    axes = figure.subplots()
    lines: dict[str, dict[str, Any]] = {}
    for number, other in enumerate(SHOWN_GAINS):
        mine = [gain for gain in found if gain.other == other]
        if mine:
            look = {"color": strategy_colour(number), "marker": MARKERS[number]}
            lines[other] = {**look, "linestyle": "none"}
            places = [settings.index(gain.setting) for gain in mine]
            axes.plot([gain.mean for gain in mine], places, **lines[other])
    axes.axvline(0, color="#777777", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks(POINTS, [f"{point:+g}" if point else "0" for point in POINTS])
    axes.set_yticks(range(len(settings)), [clean_name(name) for name in settings])
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.set_xlabel("points by which Kin is better")
    add_legend(figure, lines)
    return figure


def _curves(kept: Sequence[KeptSetting], kind: str, title: str) -> Figure:
    figure, axes = new_panels(len(kept), per_row=PER_ROW)
    shown = {one.strategy for each in kept for one in each.made.curves if one.kind == kind}
    label_first_column(axes, title)
    for setting, each in zip(kept, axes, strict=True):
        is_error = kind == "validation" and not setting.results[0].is_accuracy
        each.set_title(clean_name(setting.made.setting) + (" (MSE)" if is_error else ""))
        for one in setting.made.curves:
            if one.kind == kind:
                line = {**asdict(one), "num_seeds": len(one.seeds)}
                draw_curve(each, line, DRAWN.index(one.strategy))
        format_round_axis(each)
        if is_error:
            means = [one.mean for one in setting.made.curves if one.kind == kind]
            scale_errors([each], means, {"higher_is_better": False})
            if each.get_ylabel():
                each.set_ylabel("validation loss")
    lines = {name: strategy_line(n) for n, name in enumerate(DRAWN) if name in shown}
    add_legend(figure, lines)
    return figure


def _dots(kept: Sequence[KeptSetting]) -> Figure:
    """Draw test results, one panel per setting; those of Kin itself in another colour.

    A tenth of a point shall look like one: panels of like data have one scale, others a wide one.
    """
    num_columns = min(3, len(kept))
    rows = [kept[first : first + num_columns] for first in range(0, len(kept), num_columns)]
    most = [max(len(_labels(each)) for each in row) for row in rows]
    height = sum(ROW_HEIGHT * count + 0.55 for count in most)
    figure = new_figure(PAGE, max(height, 1.6))
    is_alike = _are_alike(kept)
    axes = figure.subplots(
        len(rows), num_columns, squeeze=False, height_ratios=most, sharex=is_alike
    )
    for unused in axes.flat[len(kept) :]:
        unused.remove()
    for setting, each in zip(kept, axes.flat, strict=False):
        _dot_panel(each, setting)
        if not is_alike:
            _widen(each)
    return figure


def _are_alike(kept: Sequence[KeptSetting]) -> bool:
    """Whether settings can be held against each other: the same data, or points lost."""
    measures = {result.is_accuracy for each in kept for result in each.results}
    presets = {each.made.preset for each in kept if each.made.group != "poison"}
    return len(measures) == 1 and len(presets) <= 1


def _widen(axes: Axes) -> None:
    """Let a panel show at least so many points."""
    low, high = axes.get_xlim()
    missing = max(LEAST_SPAN - (high - low), 0.0)
    axes.set_xlim(low - missing / 2, high + missing / 2)


def _dot_panel(axes: Axes, kept: KeptSetting) -> None:
    is_accuracy = all(each.is_accuracy for each in kept.results)
    scale = 100.0 if is_accuracy else 1.0
    labels = _labels(kept)
    tests = [
        [_shown(each) * scale for each in kept.results if each.strategy == name] for name in labels
    ]
    means, widths = zip(*map(confidence, tests), strict=True)
    for place, (name, mean, width) in enumerate(zip(labels, means, widths, strict=True)):
        is_ours = name == "kin" or (kept.made.group == "poison" and name.startswith("kin-"))
        colour = HELPED if is_ours else GREY
        axes.errorbar(mean, place, xerr=width, fmt="o", color=colour, elinewidth=1.2)
    axes.set_yticks(range(len(labels)), [clean_name(name) for name in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(labelbottom=True)
    if kept.made.group == "poison":
        axes.axvline(0, color="#777777", linewidth=0.6)
    axes.set_title(clean_name(kept.made.setting))
    lost = "points lost by honest peers"
    usual = "test accuracy (%)" if is_accuracy else "test error (MSE)"
    axes.set_xlabel(lost if kept.made.group == "poison" else usual)


def _labels(kept: KeptSetting) -> list[str]:
    known = (each.strategy for each in kept.results if not math.isnan(_shown(each)))
    return list(dict.fromkeys(known))


def _shown(result: Result) -> float:
    """Return what is drawn: the test, or where peers are poisoned what they cost the others."""
    return result.lost if result.group == "poison" else result.test
