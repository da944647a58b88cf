"""Eight runs on a Ray cluster of two nodes with one CPU each, beside --side-by-side 2.

usage: python benchmarks/ray_runs.py [--repeats N] [--rounds N] [--folder FOLDER] [--save]

Both sides run the same sweep on this computer in turn, each time in a new process. The time begins
when both nodes have reported a round: the start of Ray and of its workers is left out, and so are
the rounds until then. Measured are seconds per round. CPU seconds are those of all processes,
Ray's included. The bar: at most 10% more than --side-by-side 2.

A run of --side-by-side waits for the disk, but a worker of a cluster does not: the command writes
its files. Where the disk is slow, that decides. --folder /dev/shm compares both without a disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.cluster.engine import RayEngine
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.runtime.round_metrics import RoundMetrics

SIDES = ("local", "ray")
OBSERVE_SECONDS = 0.2
TOGETHER_SECONDS = 0.05
"""Rounds that arrive together with the first one of the second run were computed before."""
MOST = 1.10
"""The bar: the largest ratio of wall times."""


def main() -> None:
    """Measure both sides alternately; print, and keep, seconds and their ratios as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument(
        "--folder", default=tempfile.gettempdir(), help="Where runs are written."
    )
    arguments.add_argument("--side", choices=SIDES, help="Measure one side once.")
    arguments.add_argument("--save", action="store_true")
    given = arguments.parse_args()
    if given.side:
        print(json.dumps(measure(given.side, given.rounds, given.folder)))
        return
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(given.repeats):
        # The other one first in turn, so that neither always finds the computer busier.
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            found[side].append(in_new_process(side, given.rounds, given.folder))
    name = "ray-runs-in-memory" if given.folder.startswith("/dev/shm") else "ray-runs"  # noqa: S108
    show(describe_machine() | {"rounds": given.rounds, **compare(found)}, name, save=given.save)


def in_new_process(side: str, rounds: int, folder: str) -> dict[str, float]:
    """Return what a new process measured."""
    options = ["--side", side, "--rounds", str(rounds), "--folder", folder]
    command = [sys.executable, __file__, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def compare(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return all measurements, and the ratios of the best ones and of neighbours."""
    summary: dict[str, Any] = {"measured": found, "bar": MOST}
    for name in ("seconds", "cpu_seconds"):
        local, ray = ([each[name] for each in found[side]] for side in SIDES)
        ratios = [second / first for first, second in zip(local, ray, strict=True)]
        summary[f"{name}_ratio_of_best"] = round(min(ray) / min(local), 3)
        summary[f"{name}_ratio_median"] = round(statistics.median(ratios), 3)
    return summary


@dataclass
class Clock:
    """Counts rounds, and the wall and CPU time of all processes, while two runs are active."""

    num_rounds: int = 0
    begun: float = 0.0
    ended: float = 0.0
    before: dict[int, float] = field(default_factory=dict)
    """The CPU seconds of each process at the beginning."""
    after: dict[int, float] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)

    def count(self, run: RunFolder, now: RoundMetrics) -> None:
        """Count a round; the time begins with the first round of the second run."""
        self.active.add(run.folder.name)
        if not self.begun and len(self.active) == 2:
            self.begun, self.before = time.perf_counter(), cpu_seconds()
        elif self.begun and time.perf_counter() - self.begun > TOGETHER_SECONDS:
            self.num_rounds += 1
            if time.perf_counter() - self.ended > OBSERVE_SECONDS:
                self.observe(run)

    def observe(self, run: RunFolder) -> None:
        """Note what processes have used, before they end."""
        self.after.update(cpu_seconds())
        self.ended = time.perf_counter()

    def per_round(self) -> dict[str, float]:
        """Return the wall and CPU seconds of a round."""
        used = sum(last - self.before.get(pid, 0.0) for pid, last in self.after.items())
        return {
            "seconds": (self.ended - self.begun) / self.num_rounds,
            "cpu_seconds": used / self.num_rounds,
        }


def cpu_seconds() -> dict[int, float]:
    """Return what this process and all below it have used, by their numbers."""
    own, used = psutil.Process(), {}
    for each in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used[each.pid] = sum(each.cpu_times()[:2])
    return used


def measure(side: str, rounds: int, folder: str) -> dict[str, float]:
    """Run the sweep once and return its wall and CPU seconds per round."""
    with tempfile.TemporaryDirectory(dir=folder) as place, engine_of(side) as engine:
        configs = find_preset("digits").runs(["random", "dac"], range(4), {"rounds": rounds})
        experiment = Experiment.create(Path(place) / "out", configs)
        clock = Clock()
        experiment.run(
            threads=2,
            side_by_side=2,
            on_round=clock.count,
            on_end=clock.observe,
            tell=lambda text: None,
            engine=engine,
        )
        return clock.per_round()


@contextmanager
def engine_of(side: str) -> Iterator[RayEngine | None]:
    """Open a cluster of two nodes on this computer for one side; nothing for the other."""
    if side == "local":
        yield None
        return
    from ray.cluster_utils import Cluster

    from coterie.cluster.connection import connect

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1)
    with connect(cluster.address, lambda text: None) as info:
        yield RayEngine(info, threads=1)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
