"""The results of a sweep: tables, a CSV file, and the command to run the best again."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from coterie.experiments.experiment import Experiment, Grid
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep import value_of, written
from coterie.results.sweep_points import MISSING, Point, Trial, points, select, trials
from coterie.storage.files import write_text

RESULTS = "results.csv"


def report_sweep(experiment: Experiment, title: str) -> list[Table | Text]:
    """Write the results of a sweep to its folder; return tables and texts for the console."""
    all_trials = trials(experiment)
    write_text(experiment.folder / RESULTS, format_csv(all_trials))
    all_points = points(all_trials)
    asked = experiment.grid or Grid(varied=())
    best = select(all_points) if asked.select else {}
    shown: list[Table | Text] = [
        build_sweep_table(title, key, all_points, list(best.values())) for key in asked.varied
    ]
    for label, point in best.items():
        chosen = ", ".join(f"{k}={v}" for k, v in point.values.items() if v is not None)
        with_what = f" with {chosen}" if chosen else ""
        shown.append(Text(f"{label}: best by validation{with_what}. Run it again:"))
        shown.append(Text(f"  {format_run_command(experiment, point)}"))
    shown.append(Text(f"One line per run: {experiment.folder / RESULTS}"))
    return shown


def format_run_command(experiment: Experiment, point: Point) -> str:
    """Return the command that runs a point again with the same seeds."""
    asked = experiment.grid or Grid(varied=())
    seeds = sorted({trial.seed for trial in point.trials})
    words = ["coterie", "run", experiment.runs[0].config.preset, "--strategy", point.label]
    words += ["--seeds", str(len(seeds))] if len(seeds) > 1 else []
    words += ["--seed", str(seeds[0])] if seeds[0] else []
    words += ["--scale", repr(asked.scale)] if asked.scale != 1 else []
    fixed = {key: written(value) for key, value in asked.changes.items()}
    (config,) = (r.config for r in experiment.runs if r.folder.name == point.trials[0].run)
    for key, value in {**fixed, **point.values}.items():
        # A setting that this strategy does not have would be refused.
        if value is not None and value_of(config, key) is not None:
            words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def build_sweep_table(
    title: str, key: str, all_points: Sequence[Point], best: Sequence[Point] = ()
) -> Table:
    """Return a table of strategies × values of a setting; other varied settings have own rows."""
    is_accuracy = all(each.is_accuracy for point in all_points for each in point.summaries)
    measure = "accuracy %" if is_accuracy else "MSE"
    table = Table(
        title=f"{escape(title)}: {measure} against {escape(key)}",
        title_justify="left",
        caption="* best by validation" if best else None,
        caption_justify="left",
    )
    others = [other for other in all_points[0].values if other != key]
    columns = _columns(key, all_points)
    for name in ("strategy", *others, "on"):
        table.add_column(escape(name))
    for value in columns:
        table.add_column(escape(MISSING if value is None else value), justify="right")
    for place, row in _rows(key, others, all_points).items():
        names = [escape(MISSING if name is None else name) for name in place]
        for part in ("validation", "test"):
            cells = [_cell(row.get(value), part, best, is_accuracy) for value in columns]
            table.add_row(*names, part, *cells, end_section=part == "test")
    return table


def format_csv(trials: Sequence[Trial]) -> str:
    """Return one row per run; unfinished runs have no numbers."""
    clusters = next((t.summary.cluster_names for t in trials if t.summary is not None), ())
    keys = list(trials[0].values)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    tests = [f"test {name}" for name in clusters]
    numbers = ["validation", "test", *tests, "models_per_peer", "megabytes_per_peer"]
    writer.writerow(["run", "strategy", "seed", *keys, *numbers])
    for trial in trials:
        names = (trial.run, trial.label, trial.seed, *(trial.values[key] or "" for key in keys))
        reached = _numbers(trial.summary) if trial.summary else [""] * len(numbers)
        writer.writerow((*names, *reached))
    return file.getvalue()


def _numbers(summary: RunSummary) -> Sequence[float | str]:
    traffic = [summary.models_per_peer, summary.megabytes_per_peer]
    return [summary.validation, summary.mean, *summary.cluster_means, *traffic]


def _columns(key: str, all_points: Sequence[Point]) -> list[str | None]:
    """Return the values of a setting; None is last, for strategies without the setting."""
    values = dict.fromkeys(point.values[key] for point in all_points)
    return sorted(values, key=lambda value: value is None)


def _rows(
    key: str, others: Sequence[str], all_points: Sequence[Point]
) -> dict[tuple[str | None, ...], dict[str | None, Point]]:
    """Return points by (strategy, values of other settings), then by the value of this one."""
    rows: dict[tuple[str | None, ...], dict[str | None, Point]] = {}
    for label in dict.fromkeys(point.label for point in all_points):
        for point in all_points:
            if point.label == label:
                place = (label, *(point.values[other] for other in others))
                rows.setdefault(place, {})[point.values[key]] = point
    return rows


def _cell(point: Point | None, part: str, best: Sequence[Point], is_accuracy: bool) -> str:
    if point is None:
        return ""
    mean, width = point.validation if part == "validation" else point.test
    if math.isnan(mean):
        return MISSING
    scale = 100.0 if is_accuracy else 1.0
    text = f"{mean * scale:.2f}"
    if not math.isnan(width):
        text += f" ± {width * scale:.2f}"
    if not point.is_complete:
        text += f" ({len(point.summaries)} of {len(point.trials)})"
    if point not in best:
        return text
    return f"[bold]{text} *[/]" if part == "validation" else f"[bold]{text}[/]"
