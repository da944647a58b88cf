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

from coterie.experiments.experiment import Experiment
from coterie.experiments.experiment_file import SweepGrid
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.sweep_grid import one_line_yaml, setting_text
from coterie.results.sweep_points import (
    MISSING,
    SweepPoint,
    SweepRun,
    best_points,
    common_score,
    group_by_values,
    read_sweep_runs,
)
from coterie.storage.files import write_text
from coterie.tasks import TaskScore

RESULTS = "results.csv"


def report_sweep(experiment: Experiment, title: str) -> list[Table | Text]:
    """Write the results of a sweep to its folder; return tables and texts for the console."""
    all_trials = read_sweep_runs(experiment)
    write_text(experiment.folder / RESULTS, format_csv(all_trials))
    all_points = group_by_values(all_trials)
    asked = experiment.grid or SweepGrid(varied=())
    best = best_points(all_points) if asked.select else {}
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


def format_run_command(experiment: Experiment, point: SweepPoint) -> str:
    """Return the command that runs a point again with the same seeds."""
    asked = experiment.grid or SweepGrid(varied=())
    seeds = sorted({trial.seed for trial in point.trials})
    words = ["coterie", "run", experiment.runs[0].config.preset, "--strategy", point.label]
    words += ["--seeds", str(len(seeds))] if len(seeds) > 1 else []
    words += ["--seed", str(seeds[0])] if seeds[0] else []
    words += ["--scale", repr(asked.scale)] if asked.scale != 1 else []
    fixed = {key: one_line_yaml(value) for key, value in asked.changes.items()}
    (config,) = (r.config for r in experiment.runs if r.folder.name == point.trials[0].run)
    for key, value in {**fixed, **point.values}.items():
        # A setting that this strategy does not have would be refused.
        if value is not None and setting_text(config, key) is not None:
            words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def build_sweep_table(
    title: str, key: str, all_points: Sequence[SweepPoint], best: Sequence[SweepPoint] = ()
) -> Table:
    """Return a table of strategies × values of a setting; other varied settings have own rows."""
    score = common_score(all_points)
    table = Table(
        title=f"{escape(title)}: {score.title} against {escape(key)}",
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
            cells = [_cell(row.get(value), part, best, score) for value in columns]
            table.add_row(*names, part, *cells, end_section=part == "test")
    return table


def format_csv(trials: Sequence[SweepRun]) -> str:
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


def _columns(key: str, all_points: Sequence[SweepPoint]) -> list[str | None]:
    """Return the values of a setting; None is last, for strategies without the setting."""
    values = dict.fromkeys(point.values[key] for point in all_points)
    return sorted(values, key=lambda value: value is None)


def _rows(
    key: str, others: Sequence[str], all_points: Sequence[SweepPoint]
) -> dict[tuple[str | None, ...], dict[str | None, SweepPoint]]:
    """Return points by (strategy, values of other settings), then by the value of this one."""
    rows: dict[tuple[str | None, ...], dict[str | None, SweepPoint]] = {}
    for label in dict.fromkeys(point.label for point in all_points):
        for point in all_points:
            if point.label == label:
                place = (label, *(point.values[other] for other in others))
                rows.setdefault(place, {})[point.values[key]] = point
    return rows


def _cell(point: SweepPoint | None, part: str, best: Sequence[SweepPoint], score: TaskScore) -> str:
    if point is None:
        return ""
    mean, width = point.validation if part == "validation" else point.test
    if math.isnan(mean):
        return MISSING
    text = f"{mean * score.scale:.2f}"
    if not math.isnan(width):
        text += f" ± {width * score.scale:.2f}"
    if not point.is_complete:
        text += f" ({len(point.summaries)} of {len(point.trials)})"
    if point not in best:
        return text
    return f"[bold]{text} *[/]" if part == "validation" else f"[bold]{text}[/]"
