"""Analyses several runs: details of each run, and means over seeds with 95% intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from rich.markup import escape
from rich.table import Table

from coterie.errors import ConfigError, StorageError, suggest
from coterie.experiments.run_folder import RunFolder
from coterie.results.analyses.analysis_list import ANALYSES, Analysis, ShownColumn, details
from coterie.results.analyses.columns import CLUSTER, CLUSTER_NAME, add_run_names, cluster_name
from coterie.results.statistics import confidence_interval
from coterie.storage.files import make_folder, write_atomically
from coterie.tasks import TaskScore

COMMUNICATION = {
    "models_per_peer": ShownColumn("models", digits=0, with_interval=False),
    "megabytes_per_peer": ShownColumn("MB", digits=1, with_interval=False),
}
"""What a peer had sent and received by then; compare strategies at equal values."""


@dataclass(frozen=True)
class SeedMean:
    """A mean over seeds, with the half width of its 95% interval."""

    mean: float
    width: float
    """NaN for a single seed."""
    num_known: int
    """The number of seeds that have a value."""


@dataclass(frozen=True)
class AnalysisRow:
    """The summary of one strategy, or of one part of it."""

    label: str
    keys: dict[str, str]
    """The values of the analysis's keys; with a cluster's number also its name."""
    seeds: tuple[int, ...]
    estimates: dict[str, SeedMean]


@dataclass(frozen=True)
class AnalysisResult:
    """One analysis of several runs."""

    analysis: Analysis
    details: pa.Table
    """The rows of all runs, each with its strategy and seed."""
    rows: tuple[AnalysisRow, ...]
    score: TaskScore
    """What the runs' tasks measure."""


def choose_analyses(names: str | None) -> list[Analysis]:
    """Return the analyses of a comma-separated list, or all."""
    known = {analysis.name: analysis for analysis in ANALYSES}
    chosen = [name.strip() for name in names.split(",")] if names else list(known)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"There is no analysis '{name}'.{suggest(name, known)}")
    return [known[name] for name in dict.fromkeys(chosen)]


def analyse_runs(
    runs: Sequence[RunFolder], analyses: Sequence[Analysis], window: int
) -> tuple[list[AnalysisResult], list[Analysis]]:
    """Return the results, and the analyses for which no run has data."""
    started = [run for run in runs if run.last_round >= 0]
    if not started:
        raise StorageError(
            f"{runs[0].folder} has no recorded round yet: the first round is still running, or was "
            f"interrupted. Continue it with: coterie resume {runs[0].folder}"
        )
    results = [
        result for each in analyses if (result := _result(each, started, window)) is not None
    ]
    found = {result.analysis.name for result in results}
    return results, [analysis for analysis in analyses if analysis.name not in found]


def _result(analysis: Analysis, runs: Sequence[RunFolder], window: int) -> AnalysisResult | None:
    detailed = [(run, details(analysis, run, window)) for run in runs]
    there = [(run, table) for run, table in detailed if table.num_rows]
    if not there:
        return None
    summaries: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for run, table in there:
        spent = {name: table[name].to_pylist()[-1] for name in COMMUNICATION}
        for row in analysis.summary(table, window).to_pylist():
            keys = (run.label, *(row[key] for key in analysis.keys))
            summaries.setdefault(keys, []).append((run.seed, {**spent, **row}))
    # The rows of a strategy are together, whatever the order of the runs.
    labels = list(dict.fromkeys(run.label for run, _ in there))
    ordered = sorted(summaries.items(), key=lambda item: labels.index(item[0][0]))
    names = {
        label: _common_names([run for run, _ in there if run.label == label]) for label in labels
    }
    return AnalysisResult(
        analysis,
        pa.concat_tables([add_run_names(run.label, run.seed, table) for run, table in there]),
        tuple(_row(analysis, keys, found, names[keys[0]]) for keys, found in ordered),
        there[0][0].score,
    )


def _common_names(runs: Sequence[RunFolder]) -> tuple[str, ...]:
    """Return the common names of the clusters; empty if the runs have different names.

    Names differ, for example, if each seed draws its labels.
    """
    names = {run.cluster_names for run in runs if run.cluster_names}
    return names.pop() if len(names) == 1 else ()


def _row(
    analysis: Analysis,
    keys: tuple[str, ...],
    found: Sequence[tuple[int, dict[str, Any]]],
    cluster_names: Sequence[str],
) -> AnalysisRow:
    columns = [name for name in found[0][1] if name not in analysis.keys]
    about = dict(zip(analysis.keys, keys[1:], strict=True))
    if CLUSTER in about:
        about[CLUSTER_NAME] = cluster_name(about[CLUSTER], cluster_names)
    return AnalysisRow(
        keys[0],
        about,
        tuple(seed for seed, _ in found),
        {name: mean_over_seeds([row[name] for _, row in found]) for name in columns},
    )


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    """Return the mean of the values that are not NaN."""
    return SeedMean(*confidence_interval(values), sum(not math.isnan(value) for value in values))


def console_table(result: AnalysisResult) -> Table:
    """Return the summary of an analysis as a table for the terminal."""
    analysis, shown = result.analysis, shown_columns(result)
    table = Table(title=f"{analysis.name}: {analysis.title}", title_justify="left")
    for title in ("strategy", *analysis.keys):
        table.add_column(title)
    for column in (*(column.title for column in shown.values()), "seeds"):
        table.add_column(column, justify="right")
    for row in result.rows:
        cells = [
            cell(row.estimates[name], column, len(row.seeds)) for name, column in shown.items()
        ]
        keys = [row.keys[CLUSTER_NAME if key == CLUSTER else key] for key in analysis.keys]
        table.add_row(*map(escape, (row.label, *keys)), *cells, str(len(row.seeds)))
    return table


def shown_columns(result: AnalysisResult) -> dict[str, ShownColumn]:
    """Return the columns to show, with the name and the scale of the score."""
    score = result.score
    columns = {**result.analysis.shown, **COMMUNICATION}
    return {
        name: replace(
            column,
            title=f"{column.title} {score.unit or score.name}",
            scale=score.scale,
            digits=1 if score.is_share else 3,
        )
        if column.is_score
        else column
        for name, column in columns.items()
    }


def cell(found: SeedMean, shown: ShownColumn, num_values: int) -> str:
    """Return a mean as text, with the number of known values if some are missing."""
    if not found.num_known:
        return "–"
    text = f"{found.mean * shown.scale:,.{shown.digits}f}"
    if not math.isnan(found.width) and shown.with_interval:
        text += f" ± {found.width * shown.scale:,.{shown.digits}f}"
    some = f" ({found.num_known} of {num_values})" if found.num_known < num_values else ""
    return text + some


def as_json(results: Sequence[AnalysisResult]) -> str:
    """Return all summaries as JSON; unknown values are null."""
    return json.dumps(
        {result.analysis.name: [_plain(row) for row in result.rows] for result in results},
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )


def _plain(row: AnalysisRow) -> dict[str, Any]:
    values = {
        name: {"mean": _or_none(each.mean), "interval": _or_none(each.width)}
        for name, each in row.estimates.items()
    }
    return {"strategy": row.label, **row.keys, "seeds": list(row.seeds), **values}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def save_details(results: Sequence[AnalysisResult], folder: Path, *, as_csv: bool) -> list[Path]:
    """Write the details of each analysis to NAME.parquet or NAME.csv; return the paths."""
    make_folder(folder)
    return [_write(result, folder, as_csv=as_csv) for result in results]


def _write(result: AnalysisResult, folder: Path, *, as_csv: bool) -> Path:
    def fill(file: BinaryIO) -> str:
        if as_csv:
            pacsv.write_csv(result.details, file)
        else:
            pq.write_table(result.details.combine_chunks(), file, compression="zstd")
        return f"{result.analysis.name}.{'csv' if as_csv else 'parquet'}"

    return write_atomically(folder, fill)
