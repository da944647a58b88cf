"""How long `coterie report` takes, and how large its page is.

usage: python benchmarks/report.py [--peers N …] [--rounds N] [--seeds N] [--runs FOLDER …] [--save]

Run folders of 3 strategies × 3 seeds × 300 rounds are made up, in the tables that runs record:
first of 100 peers, whose page should take at most 20 s and 15 MB, then of 1,000, at most 25 MB.
--runs reports real ones beside them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.experiments.config import RunConfig, apply_changes
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import summarise
from coterie.randomness import generator
from coterie.runtime.estimate_records import recorded_peers
from coterie.runtime.round import MEASURES
from coterie.runtime.run_tables import SCHEMAS
from coterie.tasks.score import ACCURACY

CLUSTERS, FETCHES, MODEL_BYTES = 4, 5, 21_000
NAMES = ("0°", "90°", "180°", "270°")
CHOOSY = {"local": 0.0, "dac": 0.9, "kin": 0.9}
"""By strategy: with which probability peers fetch from their own cluster in the end."""
Columns = dict[str, Any]


def main() -> None:
    """Make up runs, report them, and print, and keep, seconds and megabytes as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--peers", type=int, nargs="*", default=[100, 1000])
    arguments.add_argument("--rounds", type=int, default=300)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--runs", type=Path, nargs="*", default=[])
    arguments.add_argument("--save", action="store_true")
    given = arguments.parse_args()
    pages: list[dict[str, Any]] = []
    for num_peers in given.peers:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "runs"
            make_runs(folder, num_peers, given.rounds, given.seeds)
            pages.append({"runs": "made up", **measure(folder)})
    pages += [{"runs": "real", **measure(folder)} for folder in given.runs]
    report = describe_machine() | {"pages": pages}
    show(report, "report", save=given.save)


def measure(folder: Path) -> dict[str, Any]:
    """Return what a folder holds, the seconds of the whole command, and the page's megabytes."""
    runs = Experiment.open(folder).runs
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "report.html"
        command = [
            sys.executable,
            "-m",
            "coterie",
            "report",
            str(folder),
            "-o",
            str(target),
        ]
        begun, used = time.perf_counter(), _processor_seconds()
        subprocess.run(command, check=True, capture_output=True)
        return {
            "num_runs": len(runs),
            "strategies": list(dict.fromkeys(run.config.label for run in runs)),
            "peers": runs[0].config.peers.count,
            "rounds": runs[0].config.rounds,
            "seconds": round(time.perf_counter() - begun, 1),
            "cpu_seconds": round(_processor_seconds() - used, 1),
            "megabytes": round(target.stat().st_size / 1e6, 1),
        }


def _processor_seconds() -> float:
    """Return what ended commands have used: on a busy computer it says more than the clock."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def make_runs(folder: Path, num_peers: int, rounds: int, seeds: int) -> None:
    """Lay out an experiment whose runs look finished."""
    changes: dict[str, Any] = {"peers.count": num_peers, "rounds": rounds, "peers.train_size": 1}
    changes |= {"peers.validation_size": 1, "watch.peers": [0], "watch.metrics": ["inverse-loss"]}
    preset = find_preset("digits")
    # The bundled digits are too few for so many peers; nobody will look at the images.
    small = [
        apply_changes(config, {**changes, "peers.count": 40})
        for config in preset.runs(list(CHOOSY), range(seeds), {})
    ]
    experiment = Experiment.create(folder, small)
    for run in experiment.runs:
        config = apply_changes(run.config, changes)
        fill(RunFolder(run.folder, config), config)


def fill(run: RunFolder, config: RunConfig) -> None:
    """Write the tables of one run, in the schemas of the recorder."""
    run.create_folder()
    parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    for name, columns in made_up(config):
        fields = [pa.array(columns[field.name], type=field.type) for field in SCHEMAS[name]]
        parts[name].append(pa.Table.from_arrays(fields, schema=SCHEMAS[name]))
    tables = {name: pa.concat_tables(found) for name, found in parts.items() if found}
    for name, table in tables.items():
        pq.write_table(table.combine_chunks(), run.folder / f"{name}.parquet", compression="zstd")
    reached = summarise(tables["metrics"], config.label, config.seed, NAMES, ACCURACY)
    (run.folder / "summary.json").write_text(json.dumps(asdict(reached)))


def made_up(config: RunConfig) -> Iterator[tuple[str, Columns]]:
    """Yield the rows of every round: levels that rise, and peers that find their own kind."""
    num_peers, rounds = config.peers.count, config.rounds
    rng = generator(config.seed, "made-up runs", config.label)
    clusters = np.arange(num_peers) % CLUSTERS
    for number in range(rounds + 1):
        share = number / rounds
        who = {
            "round": np.full(num_peers, number),
            "peer": np.arange(num_peers),
            "cluster": clusters,
        }
        levels = 0.2 + 0.5 * share + 0.1 * rng.random(num_peers)
        tested = number % 10 == 0
        fetched = number > 0 and config.label != "local"
        yield "metrics", _metrics(who, levels, tested=tested, fetched=fetched)
        if fetched:
            yield from _exchanged(rng, who, share * CHOOSY[config.label])
        if number > 0:
            yield "similarities", _similarities(rng, who)
        if config.label != "local" and number % (-(-rounds // 20)) == 0:
            yield "beliefs", _beliefs(rng, who, share)
        if config.label == "kin" and number > 0:
            yield "chosen_neighbours", _chosen(rng, who, share)
        yield "timings", {"round": [number], "wall_seconds": [0.1], "cpu_seconds": [0.2]}


def _metrics(who: Columns, levels: Any, *, tested: bool, fetched: bool) -> Columns:
    count = len(levels)
    values = {name: 1 - levels if "loss" in name else levels for name in MEASURES}
    for name in MEASURES:
        if name.startswith("test_") and not tested:
            values[name] = np.full(count, np.nan)
    models = np.full(count, FETCHES if fetched else 0)
    traffic = {f"models_{side}": models for side in ("received", "sent")}
    traffic |= {f"bytes_{side}": models * MODEL_BYTES for side in ("received", "sent")}
    return {**who, "step": np.zeros(count), **_state(count), **values, **traffic}


def _state(count: int) -> Columns:
    return {"status": ["active"] * count, "poisoned": np.zeros(count, dtype=bool)}


def _exchanged(rng: Any, who: Columns, choosy: float) -> Iterator[tuple[str, Columns]]:
    """Yield who fetched whom, from the own cluster with this probability, and the sum of it."""
    clusters, count = who["cluster"], len(who["peer"])
    receivers = np.repeat(who["peer"], FETCHES)
    strangers = (receivers + rng.integers(1, count, len(receivers))) % count
    steps = rng.integers(1, count // CLUSTERS, len(receivers)) * CLUSTERS
    kin = (receivers + steps) % (count // CLUSTERS * CLUSTERS)
    senders = np.where(rng.random(len(receivers)) < choosy, kin, strangers)
    same = (clusters[receivers] == clusters[senders]).reshape(count, FETCHES).sum(axis=1)
    yield (
        "exchanges",
        {
            "round": np.full(len(receivers), who["round"][0]),
            "kind": ["fetch"] * len(receivers),
            "receiver": receivers,
            "sender": senders,
            "bytes": np.full(len(receivers), MODEL_BYTES),
            "delivered": np.ones(len(receivers), dtype=bool),
            "weight": np.full(len(receivers), 1 / (FETCHES + 1)),
        },
    )
    received = np.full(count, FETCHES)
    weights = {"weight_others": received / 6, "weight_same_cluster": same / 6}
    yield (
        "neighbours",
        {**who, "num_received": received, "num_same_cluster": same, **weights},
    )


def _similarities(rng: Any, who: Columns) -> Columns:
    others = who["peer"][1:]
    same = who["cluster"][others] == who["cluster"][0]
    return {
        **_about(who, np.zeros(len(others), dtype=np.int64), others),
        "metric": ["inverse-loss"] * len(others),
        "similarity": 0.5 + 0.3 * same + 0.1 * rng.random(len(others)),
    }


def _beliefs(rng: Any, who: Columns, share: float) -> Columns:
    """Return tables that fill in the course of the run, of the peers that would be asked."""
    asked, count = recorded_peers(who["cluster"]), len(who["peer"])
    peers, others = np.repeat(asked, count), np.tile(who["peer"], len(asked))
    known = (peers != others) & (rng.random(len(peers)) < 0.2 + 0.8 * share)
    peers, others = peers[known], others[known]
    same = who["cluster"][peers] == who["cluster"][others]
    origins = np.where(rng.random(len(peers)) < share, "measured", "estimated")
    return {
        **_about(who, peers, others),
        "origin": origins,
        "similarity": 0.5 + 0.3 * same + 0.1 * rng.random(len(peers)),
        "probability": np.where(same, 1 + 9 * share, 1.0) / count,
    }


def _chosen(rng: Any, who: Columns, share: float) -> Columns:
    """Return lists of neighbours that are less and less of other clusters."""
    others = np.bincount(who["cluster"])[who["cluster"]] - 1
    same = rng.binomial(others, share)
    strangers = rng.binomial(others, 1 - share)
    return {
        **who,
        "num_chosen": same + strangers,
        "num_same_cluster": same,
        "num_true": others,
    }


def _about(who: Columns, peers: Any, others: Any) -> Columns:
    return {
        "round": np.full(len(peers), who["round"][0]),
        "peer": peers,
        "cluster": who["cluster"][peers],
        "other": others,
        "other_cluster": who["cluster"][others],
    }


if __name__ == "__main__":
    main()
