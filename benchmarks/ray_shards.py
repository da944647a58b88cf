"""A run in two shards of one thread each, beside the same run on two threads of one process.

usage: python benchmarks/ray_shards.py [--repeats N] [--rounds N] [--data-root DIR] [--save]

Both sides run dac-cifar-rotation4 with 100 peers in turn, each time in a new process. The time
begins after round 1, so that the start of Ray and of the shards is left out, and ends with the last
round. Checkpoints are written as in any run. The bar: at most 15% more wall time.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.cluster.engine import RayEngine, open_ray_engine
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset

SIDES = ("local", "shards")
MOST = 1.15
"""The bar: the largest ratio of wall times."""


def main() -> None:
    """Measure both sides alternately; print, and keep, seconds and their ratios as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--data-root", type=Path)
    arguments.add_argument("--side", choices=SIDES, help="Measure one side once.")
    arguments.add_argument("--save", action="store_true")
    given = arguments.parse_args()
    if given.side:
        print(json.dumps(measure(given.side, given.rounds, given.data_root)))
        return
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(given.repeats):
        # The other one first in turn, so that neither always finds the computer busier.
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            found[side].append(in_new_process(side, given.rounds, given.data_root))
    show(
        describe_machine() | {"rounds": given.rounds, **compare(found)},
        "ray-shards",
        save=given.save,
    )


def in_new_process(side: str, rounds: int, data_root: Path | None) -> float:
    """Return the seconds per round that a new process measured."""
    command = [sys.executable, __file__, "--side", side, "--rounds", str(rounds)]
    command += ["--data-root", str(data_root)] if data_root else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def compare(found: dict[str, list[float]]) -> dict[str, Any]:
    """Return all measurements, and the ratios of the best ones and of neighbours."""
    pairs = zip(found["local"], found["shards"], strict=True)
    return {
        "seconds_per_round": found,
        "ratio_of_best": round(min(found["shards"]) / min(found["local"]), 3),
        "ratio_median": round(statistics.median(second / first for first, second in pairs), 3),
        "bar": MOST,
    }


def measure(side: str, rounds: int, data_root: Path | None) -> float:
    """Run once and return the wall seconds of a round."""
    times: list[float] = []
    changes: dict[str, Any] = {"rounds": rounds, "test_every": rounds + 1}
    if data_root:
        changes["data.root"] = str(data_root)
    configs = find_preset("dac-cifar-rotation4").runs(["dac"], [0], changes)
    with tempfile.TemporaryDirectory() as place, engine_of(side) as engine:
        experiment = Experiment.create(Path(place) / "out", configs)
        experiment.run(
            threads=2,
            on_round=lambda run, now: times.append(time.perf_counter()),
            tell=lambda text: None,
            engine=engine,
        )
    # From the end of round 1 to that of the last but one; the last round is tested.
    return (times[-2] - times[1]) / (len(times) - 3)


@contextmanager
def engine_of(side: str) -> Iterator[RayEngine | None]:
    """Open Ray for one side; nothing for the other."""
    if side == "local":
        yield None
        return
    with open_ray_engine(None, lambda text: None, threads=1, num_shards=2) as engine:
        yield engine


if __name__ == "__main__":
    main()
