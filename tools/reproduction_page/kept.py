"""What is kept of an experiment: results, costs, how it was made, analyses."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import yaml
from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import Preset, find_preset
from coterie.experiments.published import published_tables
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary
from coterie.results.analyses import analyse_runs
from coterie.results.analyses.analysis_list import Analysis
from coterie.results.analyses.columns import ALL
from coterie.results.published_comparison import list_departures
from coterie.results.reproduction import ReproducedRun, Reproduction
from coterie.runtime.run_tables import read_table
from coterie.storage.files import explain_errors, prepare_folder, write_text
from coterie.strategies import make_strategy
from coterie.strategies.delusional_oracle import DelusionalOracle
from coterie.studies.papers import PAPERS

# Settings of a computer: where files lie, how often a run is saved, and what trains it.
OF_THE_COMPUTER = (
    "data.root",
    "checkpoint_every",
    "training.trainer",
    "training.device",
    "training.peers_at_once",
)
WINDOW = 10
"""How many rounds the means of analyses are taken over."""


@dataclass(frozen=True)
class Summary:
    """One row of what an analysis says about a run."""

    about: dict[str, str]
    """What it is about, such as a cluster or a shift; nothing: the whole run."""
    values: dict[str, float | None]
    """Shares and accuracies between 0 and 1; None is unknown."""


@dataclass(frozen=True)
class Delusion:
    """Which peers mistake their cluster in a run of the delusional Oracle."""

    cluster: str
    """The name of their cluster."""
    num_peers: int
    from_round: int


@dataclass(frozen=True)
class KeptRun:
    """What one finished run reached and what it cost."""

    outcome: RunSummary
    num_rounds: int
    """Rounds that were run, without the initial training."""
    wall_seconds: float
    cpu_seconds: float
    summaries: dict[str, tuple[Summary, ...]] = field(default_factory=dict)
    """By the names of the analyses that say something about the run."""
    delusion: Delusion | None = None


@dataclass(frozen=True)
class Kept:
    """What is kept of an experiment."""

    preset: str
    command: str
    changes: dict[str, Any]
    """How all runs differ from the preset, by dotted keys."""
    departures: tuple[str, ...]
    """How the runs differ from the published setting, or from the preset; in words."""
    preset_rounds: int
    hardware: str
    software: dict[str, str]
    runs: tuple[KeptRun, ...]


def keep(experiment: Experiment, command: str | None = None) -> Kept:
    """Return what is kept of the finished runs of an experiment."""
    if experiment.grid is not None:
        raise ConfigError(f"{experiment.folder} is a sweep; the page shows experiments of `run`.")
    finished = [run for run in experiment.runs if run.read_summary() is not None]
    if not finished:
        raise StorageError(
            f"No run of {experiment.folder} has finished. Continue with: coterie resume "
            f"{experiment.folder}"
        )
    configs = [run.config for run in experiment.runs]
    preset = find_preset(configs[0].preset)
    extended = _with_variants(preset)
    changes = _changes(configs, extended)
    analyses = _analyses(finished)
    return Kept(
        preset=preset.name,
        command=command or _command(configs, preset, changes),
        changes=changes,
        departures=_departures([run.config for run in finished], extended),
        preset_rounds=preset.config.rounds,
        hardware=hardware(),
        software=software(finished[0]),
        runs=tuple(
            _kept_run(run, reached, analyses) for run in finished if (reached := run.read_summary())
        ),
    )


def _with_variants(preset: Preset) -> Preset:
    """Return a preset with the variants that the study of the papers adds to it for figures."""
    known = {variant.label for variant in preset.variants}
    more = {
        variant.label: variant
        for setting in PAPERS.settings
        if setting.preset == preset.name
        for variant in setting.variants
        if variant.label not in known
    }
    return replace(preset, variants=(*preset.variants, *more.values()))


def _departures(configs: Sequence[RunConfig], preset: Preset) -> tuple[str, ...]:
    """Return how runs with published numbers differ from the preset; if there are none, all."""
    table = published_tables().get(preset.name)
    compared = [config for config in configs if table and config.label in table.results]
    found = (each for config in compared or configs for each in list_departures(config, preset))
    return tuple(dict.fromkeys(found))


def _analyses(runs: Sequence[RunFolder]) -> list[Analysis]:
    """Return the analyses that have something to say about runs; without drift one stays silent."""
    names = ["recovery"]
    if any(len(run.read_cluster_names()) > 1 for run in runs):
        names += ["neighbours", "fetched", "unfetched"]
    if any(_delusional(run.config) for run in runs):
        names.append("merges")
    return analyse_runs.choose_analyses(",".join(names))


def _kept_run(run: RunFolder, outcome: RunSummary, analyses: Sequence[Analysis]) -> KeptRun:
    timings = read_table(run.folder, "timings")
    return KeptRun(
        outcome=outcome,
        num_rounds=timings.num_rows - 1,
        wall_seconds=round(float(timings["wall_seconds"].to_numpy().sum()), 1),
        cpu_seconds=round(float(timings["cpu_seconds"].to_numpy().sum()), 1),
        summaries=_summaries(run, analyses),
        delusion=_delusion(run, outcome),
    )


def _summaries(run: RunFolder, analyses: Sequence[Analysis]) -> dict[str, tuple[Summary, ...]]:
    results, _ = analyse_runs.analyse_runs([run], analyses, WINDOW)
    return {
        result.analysis.name: tuple(
            Summary(row.keys, {name: _or_none(one.mean) for name, one in row.estimates.items()})
            for row in result.rows
        )
        for result in results
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _delusion(run: RunFolder, outcome: RunSummary) -> Delusion | None:
    if (strategy := _delusional(run.config)) is None:
        return None
    metrics = read_table(run.folder, "metrics")
    last = metrics.filter(pc.equal(metrics["round"], pc.max(metrics["round"])))
    num_members = pc.sum(pc.equal(last["cluster"], strategy.cluster)).as_py()
    return Delusion(
        cluster=outcome.cluster_names[strategy.cluster],
        num_peers=min(strategy.delusional, num_members),
        from_round=strategy.from_round,
    )


def _delusional(config: RunConfig) -> DelusionalOracle | None:
    """Return the strategy of a run if it is the delusional Oracle."""
    strategy = make_strategy(config.strategy["name"], config.strategy_options())
    return strategy if isinstance(strategy, DelusionalOracle) else None


def software(run: RunFolder) -> dict[str, str]:
    """Return the versions that matter most of what a run was made with."""
    path = run.folder / "software.json"
    with explain_errors(f"read {path}"):
        versions = json.loads(path.read_text())
    return {name: versions[name] for name in ("python", "coterie", "torch", "numpy")}


def hardware() -> str:
    """Name this computer's processor: experiments are kept where they were run."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = named[0] if named else model
    return f"{os.cpu_count()} cores, {model}"


def _changes(configs: Sequence[RunConfig], preset: Preset) -> dict[str, Any]:
    """Return how runs differ from their preset, {dotted key: value}."""
    changes: dict[str, Any] = {}
    for config in configs:
        [expected] = preset.runs([config.label], [config.seed], {})
        before, now = _settings(expected), _settings(config)
        changes.update({key: now[key] for key in now if before.get(key) != now[key]})
    return changes


def _settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings by dotted keys; groups that come in kinds are one setting each."""
    found: dict[str, Any] = {}

    def add(prefix: str, group: dict[str, Any]) -> None:
        for key, value in group.items():
            if isinstance(value, dict) and "kind" not in value:
                add(f"{prefix}{key}.", value)
            else:
                found[f"{prefix}{key}"] = value

    add("", config.model_dump(mode="json", exclude={"label", "seed"}))
    for key in OF_THE_COMPUTER:
        found.pop(key, None)
    if found["model.pretrained"] is not None:
        found["model.pretrained"] = Path(found["model.pretrained"]).name
    return found


def _command(configs: Sequence[RunConfig], preset: Preset, changes: dict[str, Any]) -> str:
    """Return the command that makes these very runs."""
    labels = list(dict.fromkeys(config.label for config in configs))
    seeds = sorted({config.seed for config in configs})
    same = preset.runs(labels, seeds, changes)
    key = {(config.label, config.seed): _settings(config) for config in configs}
    if key != {(config.label, config.seed): _settings(config) for config in same}:
        raise ConfigError(
            "These runs do not differ from their preset by the same settings, as runs with --scale "
            "do not. Name the command they were started with: --command 'coterie run …'"
        )
    words = ["coterie", "run", preset.name]
    if labels != [variant.label for variant in preset.variants]:
        words += ["--strategy", ",".join(labels)]
    if seeds[0]:
        words += ["--seed", str(seeds[0])]
    if len(seeds) > 1:
        words += ["--seeds", str(len(seeds))]
    options = {"rounds": "--rounds", "peers.count": "--peers"}
    for name in sorted(changes, key=lambda name: name not in options):
        value = changes[name]
        written = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
        text = written.removesuffix("\n").removesuffix("\n...")
        words += [options[name], text] if name in options else ["--set", f"{name}={text}"]
    return shlex.join(words)


def reproduction(name: str, kept: Kept) -> Reproduction:
    """Return what is kept in the form in which it is held against published numbers."""
    rounds = int(kept.changes.get("rounds", kept.preset_rounds))
    runs = tuple(
        ReproducedRun(
            run.outcome,
            precision=_kept_value(run, "neighbours", "precision"),
            recall=_kept_value(run, "neighbours", "recall"),
            over_time=_kept_value(run, "recovery", "mean_level"),
        )
        for run in kept.runs
    )
    return Reproduction(name, kept.preset, rounds, kept.departures, runs)


def _kept_value(run: KeptRun, analysis: str, column: str) -> float:
    """Return a number of an analysis about the whole run; NaN if it is not known."""
    for row in run.summaries.get(analysis, ()):
        value = row.values.get(column)
        if row.about.get("shift", ALL) == ALL and value is not None:
            return value
    return math.nan


def write(kept: Kept, folder: Path, name: str) -> Path:
    """Write what is kept into the folder, as NAME.json."""
    prepare_folder(folder)
    path = folder / f"{name}.json"
    write_text(path, json.dumps(asdict(kept), indent=1, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> Kept:
    """Read what `write` wrote."""
    try:
        with explain_errors(f"read {path}"):
            return TypeAdapter(Kept).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StorageError(
            f"{path} is damaged at '{where}': {first['msg']}. Keep the experiment once more."
        ) from None
