"""What tools/write_kin_page.py keeps of a study: results, some curves, and how they were made."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from coterie.errors import StorageError
from coterie.experiments.config import RunConfig
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets.scaling import COUNTS_ROUNDS
from coterie.experiments.run_folder import SUMMARY, RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.curves_view import build_curves
from coterie.reports.html.views.view_parts import Json, summarise_seeds
from coterie.results.analyses.columns import columns, of_all_peers
from coterie.results.analyses.neighbours import fetched_precision
from coterie.results.published_comparison import differences
from coterie.results.read_runs import read_runs
from coterie.storage.files import explain_errors, prepare_folder, write_text
from coterie.studies.base import Setting, Study
from coterie.studies.results import Result, csv_text, read_csv, results
from reproduction_page.kept import hardware, software

DRAWN = ("random", "dac", "oracle", "hast", "kin")
"""The strategies whose curves are kept."""
KINDS = ("validation", "own cluster")
MAX_POINTS = 60
"""How many rounds of a curve are kept at most."""


@dataclass(frozen=True)
class Curve:
    """One number of a strategy over rounds, in percent where it is a share."""

    strategy: str
    kind: str
    round: list[int]
    mean: list[float]
    low: list[float]
    """The lowest of the seeds."""
    high: list[float]
    seeds: list[int]


@dataclass(frozen=True)
class Made:
    """How the runs of a setting were made, and their curves."""

    setting: str
    group: str
    preset: str
    departures: list[str]
    """In what the runs depart from the study's own setting, in words."""
    date: str
    """When the last of them finished."""
    hardware: str
    software: dict[str, str]
    curves: list[Curve]


@dataclass(frozen=True)
class KeptSetting:
    """One setting of a study."""

    made: Made
    results: list[Result]


def keep(study: Study, folder: Path, target: Path, only: Sequence[str] | None = None) -> list[str]:
    """Keep the finished runs of a study's folder, of some settings or all; return their names.

    Other runs that were kept before stay.
    """
    problems: list[str] = []
    found = results(study, folder, problems)
    if problems:
        raise StorageError("\n".join(problems))
    kept = []
    for setting in study.chosen(only):
        mine = [result for result in found if result.setting == setting.name]
        if mine:
            now = KeptSetting(_made(setting, folder / setting.place), mine)
            path = target / f"{setting.name}.json"
            _write(combined(_read(path), now, setting) if path.exists() else now, target)
            kept.append(setting.name)
    if not kept:
        raise StorageError(f"{folder} holds no finished run of {', '.join(only or [study.name])}.")
    return kept


def combined(before: KeptSetting, now: KeptSetting, setting: Setting) -> KeptSetting:
    """Return all runs of both; of a run that is in both, the new one."""
    old, new = (_shared_departures(each.made) for each in (before, now))
    if old != new:
        told = [", ".join(sorted(each)) or "none" for each in (old, new)]
        raise StorageError(
            f"The kept runs of {setting.name} depart otherwise from the study than these: {told[0]}"
            f" and {told[1]}. Run with the same settings, or remove its files to keep these."
        )
    runs = {(each.strategy, each.seed): each for each in (*before.results, *now.results)}
    labels = list(setting.labels)
    ordered = sorted(
        (key for key in runs if key[0] in labels), key=lambda key: (labels.index(key[0]), key[1])
    )
    departures = list(dict.fromkeys([*before.made.departures, *now.made.departures]))
    joined = _joined(before.made.curves, now.made.curves)
    drawn = [curve for label in labels for curve in joined if curve.strategy == label]
    return KeptSetting(
        replace(now.made, departures=departures, curves=drawn), [runs[key] for key in ordered]
    )


def _shared_departures(made: Made) -> set[str]:
    """Return in what all runs depart; how peers are poisoned concerns only some.

    So do the phases of a strategy, which are shorter where all have fewer rounds.
    """
    of_some = ("poison.", *(f"strategy.{name} " for name in sorted(COUNTS_ROUNDS)))
    return {each for each in made.departures if not each.startswith(of_some)}


def _joined(before: Sequence[Curve], now: Sequence[Curve]) -> list[Curve]:
    """Return curves over the seeds of both; seeds that are in both cannot be told apart again."""
    curves = {(each.strategy, each.kind): each for each in before}
    for new in now:
        old = curves.get((new.strategy, new.kind))
        apart = old is not None and old.round == new.round and not set(old.seeds) & set(new.seeds)
        curves[new.strategy, new.kind] = _over_both(old, new) if old and apart else new
    return list(curves.values())


def _over_both(one: Curve, other: Curve) -> Curve:
    counts = [len(one.seeds), len(other.seeds)]
    return replace(
        one,
        mean=np.average([one.mean, other.mean], axis=0, weights=counts).round(3).tolist(),
        low=np.minimum(one.low, other.low).tolist(),
        high=np.maximum(one.high, other.high).tolist(),
        seeds=sorted([*one.seeds, *other.seeds]),
    )


def _made(setting: Setting, folder: Path) -> Made:
    runs = [
        run
        for run in Experiment.open(folder).runs
        if run.read_summary() is not None and run.config.label in setting.labels
    ]
    return Made(
        setting=setting.name,
        group=setting.group,
        preset=setting.preset,
        departures=_departures(setting, [run.config for run in runs]),
        date=_finished_on(runs),
        hardware=hardware(),
        software=software(runs[0]),
        curves=_curves(folder, setting) if setting.group == "main" else [],
    )


def _departures(setting: Setting, configs: Sequence[RunConfig]) -> list[str]:
    found: dict[str, None] = {}
    for config in configs:
        [expected] = setting.runs([config.label], [config.seed], {})
        found.update(dict.fromkeys(differences(expected, config)))
    return list(found)


def _finished_on(runs: Sequence[RunFolder]) -> str:
    newest = max((run.folder / SUMMARY).stat().st_mtime for run in runs)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d}"


def _curves(folder: Path, setting: Setting) -> list[Curve]:
    drawn = [label for label in DRAWN if label in setting.labels]
    runs = [run for run in read_runs([folder]) if run.finished and run.label in drawn]
    if not runs:
        return []
    group = RunGroup(tuple(runs))
    levels = build_curves(group)["curves"]["validation"]
    found = []
    for place, (label, mine) in enumerate(group.runs_by_label.items()):
        seeds = sorted(run.seed for run in mine)
        found.append(_curve(label, KINDS[0], levels[place][0], seeds))
        shares = summarise_seeds([_own_cluster(run) for run in mine], 100.0)
        if shares["round"]:
            found.append(_curve(label, KINDS[1], shares, seeds))
    return found


def _own_cluster(run: RunFolder) -> dict[int, float]:
    """Return the share of fetched models from the own cluster, by round."""
    detail = fetched_precision(run.table("neighbours"))
    if not detail.num_rows:
        return {}
    every = columns(of_all_peers(detail), "round", "precision")
    return dict(zip(every["round"].tolist(), every["precision"].tolist(), strict=True))


def _curve(label: str, kind: str, data: Json, seeds: list[int]) -> Curve:
    """Return a curve of fewer rounds, the last one among them."""
    step = max(1, math.ceil(len(data["round"]) / MAX_POINTS))
    thin = {name: data[name][::-1][::step][::-1] for name in ("round", "mean", "low", "high")}
    return Curve(label, kind, **thin, seeds=seeds)


def _write(kept: KeptSetting, target: Path) -> None:
    prepare_folder(target)
    made = asdict(kept.made)
    # One line per curve: files that people can still look at.
    lines = ",\n".join(json.dumps(curve) for curve in made.pop("curves"))
    text = json.dumps(made, indent=1, ensure_ascii=False).removesuffix("\n}")
    write_text(target / f"{kept.made.setting}.json", f'{text},\n "curves": [\n{lines}\n]}}\n')
    write_text(target / f"{kept.made.setting}.csv", csv_text(kept.results))


def read(study: Study, folder: Path) -> list[KeptSetting]:
    """Return what is kept of a study's settings, in the study's order."""
    paths = [folder / f"{setting.name}.json" for setting in study.settings]
    return [_read(path) for path in paths if path.exists()]


def _read(path: Path) -> KeptSetting:
    try:
        with explain_errors(f"read {path}"):
            made = TypeAdapter(Made).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise StorageError(f"{path} is damaged: {first['msg']}. Keep the study again.") from None
    return KeptSetting(made, read_csv(path.with_suffix(".csv")))
