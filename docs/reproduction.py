"""Writes docs/reproduction.md, our results beside the published ones, from reproduction/*.json.

usage: python docs/reproduction.py
       python docs/reproduction.py FOLDER [--name NAME] [--command COMMAND]

With a folder, the experiment in it is kept first: what its finished runs reached, what they cost
and how they were started. The published numbers are those of the package, so that no number is
typed by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import TypeAdapter, ValidationError
from rich.table import Table

from coterie.config import RunConfig
from coterie.errors import ConfigError, CoterieError, StorageError
from coterie.experiment import Experiment
from coterie.presets import PRESETS, Preset, find_preset
from coterie.presets.comparing import comparison
from coterie.presets.published import published_tables
from coterie.reports.published import Comparison
from coterie.reports.tables import Outcome, final_table
from coterie.simulation.records import read_table
from coterie.storage import explained, open_folder, write_text

DOCS = Path(__file__).parent
PAGE, KEPT = DOCS / "reproduction.md", DOCS / "reproduction"
# Where files lie, how often is saved and who computes belong to a computer, not to a setting.
OF_THE_COMPUTER = ("data.root", "checkpoint_every", "training.trainer")
INTRODUCTION = """# Reproduction

Our results beside the published ones, written by `python docs/reproduction.py` from the files in
[reproduction](reproduction), one for each experiment.

**What is compared.** Every preset is one setting of a paper, with the paper's hyperparameters. Test
accuracy, or mean squared error, is that of each peer's best model by validation, on test data of
the peer's own distribution at the end of the run. Papers do not say everything:
[algorithms.md](algorithms.md) lists what was decided, and where a paper and its published code
disagree.

**How means are formed.** A cluster's number is the mean over its peers. The mean is over all peers,
or over clusters where the paper's is; then the column says so. With several seeds a number is their
mean, ± half the width of its 95 % confidence interval (Student's t). The difference is ours minus
the published one.

**How to read "shortened".** Below each table stands in what the runs depart from the published
setting: rounds, peers, seeds, any other setting. "Not a reproduction" means just that: a run of 100
of 300 rounds shows whether the order of strategies is the same, not whether a number is. A strategy
without a row "published" has no published number.

**What it costs.** Wall and CPU time are sums over all rounds of a run, mean over seeds, on the
hardware that is named; runs that ran side by side shared it. Early stopping may end a run before
its last round.

## How to run everything

Each command leaves a folder; `python docs/reproduction.py FOLDER` keeps what it reached. `coterie
data` says which datasets are missing. Full runs take hours to days: `--rounds`, `--seeds`,
`--scale` shorten them, and the page will say so.
"""


@dataclass(frozen=True)
class KeptRun:
    """What one finished run reached and what it cost."""

    outcome: Outcome
    num_rounds: int
    """Rounds that were run, without the initial training."""
    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Kept:
    """What is kept of an experiment."""

    preset: str
    command: str
    changes: dict[str, Any]
    """In what all runs differ from the preset, by dotted keys."""
    departures: tuple[str, ...]
    """In what the runs depart from the published setting, in words."""
    preset_rounds: int
    hardware: str
    software: dict[str, str]
    runs: tuple[KeptRun, ...]


def keep(experiment: Experiment, command: str | None = None) -> Kept:
    """Return what is kept of the finished runs of an experiment."""
    if experiment.grid is not None:
        raise ConfigError(f"{experiment.folder} is a sweep; the page shows experiments of `run`.")
    finished = [run for run in experiment.runs if run.outcome is not None]
    if not finished:
        raise StorageError(
            f"No run of {experiment.folder} has finished. Continue with: coterie resume "
            f"{experiment.folder}"
        )
    configs = [run.config for run in experiment.runs]
    preset = find_preset(configs[0].preset)
    changes = _changes(configs, preset)
    compared = comparison([run.config for run in finished])
    with explained(f"read {finished[0].folder / 'software.json'}"):
        software = json.loads((finished[0].folder / "software.json").read_text())
    return Kept(
        preset=preset.name,
        command=command or _command(configs, preset, changes),
        changes=changes,
        departures=compared.departures if compared else (),
        preset_rounds=preset.config.rounds,
        hardware=_hardware(),
        software={name: software[name] for name in ("python", "coterie", "torch", "numpy")},
        runs=tuple(_kept_run(run.folder, run.outcome) for run in finished if run.outcome),
    )


def _kept_run(folder: Path, outcome: Outcome) -> KeptRun:
    timings = read_table(folder, "timings")
    return KeptRun(
        outcome=outcome,
        num_rounds=timings.num_rows - 1,
        wall_seconds=round(float(timings["wall_seconds"].to_numpy().sum()), 1),
        cpu_seconds=round(float(timings["cpu_seconds"].to_numpy().sum()), 1),
    )


def _hardware() -> str:
    """Name this computer's processor: experiments are kept where they were run."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = named[0] if named else model
    return f"{os.cpu_count()} cores, {model}"


def _changes(configs: Sequence[RunConfig], preset: Preset) -> dict[str, Any]:
    """Return in what runs differ from their preset, {dotted key: value}."""
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


def write(kept: Kept, folder: Path, name: str) -> Path:
    """Write what is kept into the folder, as NAME.json."""
    open_folder(folder)
    path = folder / f"{name}.json"
    write_text(path, json.dumps(asdict(kept), indent=1, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> Kept:
    """Read what `write` wrote."""
    try:
        with explained(f"read {path}"):
            return TypeAdapter(Kept).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StorageError(
            f"{path} is damaged at '{where}': {first['msg']}. Keep the experiment once more."
        ) from None


def page(folder: Path = KEPT) -> str:
    """Return the whole page."""
    kept = [(path.stem, read(path)) for path in sorted(folder.glob("*.json"))]
    order = list(PRESETS)
    kept.sort(key=lambda pair: (order.index(find_preset(pair[1].preset).name), pair[0]))
    missing = [name for name in published_tables() if name not in {one.preset for _, one in kept}]
    parts = [INTRODUCTION, _all_commands()]
    parts += [_section(name, one) for name, one in kept]
    if missing:
        names = ", ".join(f"`{name}`" for name in sorted(missing, key=order.index))
        parts.append(f"## Not run yet\n\n{names}.\n")
    return "\n".join(parts)


def _all_commands() -> str:
    tables = published_tables()
    commands = [
        f"coterie run {name}{f' --seeds {seeds}' if (seeds := tables[name].seeds) else ''}"
        for name in PRESETS
        if name in tables
    ]
    return "\n".join(["```", *commands, "```", ""])


def _section(name: str, kept: Kept) -> str:
    outcomes = [run.outcome for run in kept.runs]
    published = published_tables().get(kept.preset)
    compared = Comparison(published, kept.departures) if published else None
    table = final_table(kept.preset, outcomes, compared)
    remarks = str(table.caption).splitlines() if table.caption else ["Nothing was published."]
    software = ", ".join(f"{package} {version}" for package, version in kept.software.items())
    return "\n".join(
        [
            f"## {name}\n\n{PRESETS[kept.preset].summary}.\n\n```\n{kept.command}\n```\n",
            f"The numbers are {str(table.title).partition(': ')[2]}.\n",
            _markdown(table),
            "",
            *(f"- {remark}" for remark in remarks),
            "",
            _efforts(kept),
            f"\nOn {kept.hardware}; {software}.\n",
        ]
    )


def _markdown(table: Table) -> str:
    """Return a table for the console as one for the page; the best strategy stays bold."""
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    lines = [_row([str(column.header) for column in table.columns])]
    lines.append(_row(["---", *["---:"] * (len(table.columns) - 1)]))
    for cells, row in zip(rows, table.rows, strict=True):
        label = str(cells[0])
        mark = "**" if row.style == "bold" else "*" if label.startswith(" ") else ""
        others = [str(cell) for cell in cells[1:]]
        lines.append(_row([f"{mark}{label.strip()}{mark}", *others]))
    return "\n".join(lines)


def _efforts(kept: Kept) -> str:
    """Return how far runs went and what they cost, by strategy."""
    lines = [_row(["strategy", "rounds", "seeds", "wall s", "CPU s"]), _row(["---", *["---:"] * 4])]
    for label in dict.fromkeys(run.outcome.label for run in kept.runs):
        mine = [run for run in kept.runs if run.outcome.label == label]
        rounds = [run.num_rounds for run in mine]
        span = f"{min(rounds)}" if len(set(rounds)) == 1 else f"{min(rounds)} to {max(rounds)}"
        seconds = [np.mean([each.wall_seconds for each in mine])]
        seconds.append(np.mean([each.cpu_seconds for each in mine]))
        lines.append(
            _row(
                [
                    label,
                    f"{span} of {kept.preset_rounds}",
                    str(len(mine)),
                    *(f"{each:,.0f}" for each in seconds),
                ]
            )
        )
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Keep an experiment if one is named, then write the page."""
    parser = argparse.ArgumentParser(description="Write docs/reproduction.md.")
    parser.add_argument("folder", nargs="?", type=Path, help="a finished experiment to keep")
    parser.add_argument("--name", help="what to call it; the name of its preset when not given")
    parser.add_argument("--command", help="the command it was started with, if it has to be named")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        kept = keep(Experiment.open(given.folder), given.command)
        write(kept, KEPT, given.name or kept.preset)
    write_text(PAGE, page())


if __name__ == "__main__":
    try:
        main()
    except CoterieError as error:
        sys.exit(f"Error: {error}")
