"""What watching costs a run: the same runs with and without `--watch` and viewers, in turn.

usage: python benchmarks/watch.py [--preset NAME] [--rounds N] [--repeats N] [--viewers N]
       [--data-root DIR] [--save]

Time is that of the rounds, as the run itself records it; the best of each kind is compared, on the
clock and of the processors, which says more on a busy computer. What the watching process used
is measured too, as a share of the whole computer: it is what a run on all cores loses.
"""

from __future__ import annotations

import argparse
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pyarrow.parquet as pq
from keeping import show

from coterie.benchmarking.machine import describe_machine


def main() -> None:
    """Alternate runs with and without viewers and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", default="digits")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--viewers", type=int, default=2)
    parser.add_argument("--data-root")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    found: dict[bool, list[Measured]] = {False: [], True: []}
    for _ in range(options.repeats):
        for is_watched in (False, True):
            found[is_watched].append(measure(options, is_watched))
    alone, watched = found[False], found[True]
    about = describe_machine()
    report: dict[str, Any] = about | {
        "preset": options.preset,
        "rounds": options.rounds,
        "viewers": options.viewers,
        "seconds_alone": [round(each.wall, 2) for each in alone],
        "seconds_watched": [round(each.wall, 2) for each in watched],
        "added_percent": added([each.wall for each in alone], [each.wall for each in watched]),
        "cpu_seconds_alone": [round(each.cpu, 2) for each in alone],
        "cpu_seconds_watched": [round(each.cpu, 2) for each in watched],
        "added_cpu_percent": added([each.cpu for each in alone], [each.cpu for each in watched]),
        "watching_cpu_seconds": [round(each.watching, 2) for each in watched],
        "percent_of_the_computer": round(
            100 * statistics.median(each.watching / each.wall for each in watched) / about["cores"],
            2,
        ),
    }
    show(report, "watch", save=options.save)


class Measured(NamedTuple):
    """The seconds of all rounds, on the clock and of the processors, and those of watching."""

    wall: float
    cpu: float
    watching: float


def added(alone: list[float], watched: list[float]) -> float:
    """Return by how many percent the best of the watched runs is above that of the others."""
    return round(100 * (min(watched) / min(alone) - 1), 2)


def measure(options: argparse.Namespace, is_watched: bool) -> Measured:
    """Run once."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "run"
        command = [sys.executable, "-m", "coterie", "run", options.preset]
        command += ["--strategy", "dac", "--rounds", str(options.rounds), "--out", str(target)]
        command += ["--data-root", options.data_root] if options.data_root else []
        command += ["--watch"] if is_watched else []
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        watching = Watching(process, options.viewers, target) if is_watched else None
        process.communicate()
        timings = pq.read_table(target / "dac-seed0" / "timings.parquet")
        wall, cpu = (float(timings[f"{kind}_seconds"].to_numpy().sum()) for kind in ("wall", "cpu"))
        return Measured(wall, cpu, watching.seconds if watching else 0.0)


class Watching(threading.Thread):
    """Views a run while it goes on, and notes what the process that shows it uses."""

    def __init__(self, process: subprocess.Popen[str], num_viewers: int, target: Path) -> None:
        super().__init__(daemon=True)
        address = next(
            found[0]
            for line in process.stderr or ()
            if (found := re.search(r"http://127\.0\.0\.1:\d+/", line))
        )
        (self._child,) = psutil.Process(process.pid).children()
        self._end = target / "dac-seed0" / "summary.json"
        self.seconds = 0.0
        self.start()
        for _ in range(num_viewers):
            threading.Thread(target=view, args=(address,), daemon=True).start()

    def run(self) -> None:
        try:
            while not self._end.exists():  # the last look comes after the run
                self.seconds = sum(self._child.cpu_times()[:2])
                time.sleep(0.1)
        except psutil.NoSuchProcess:
            return


def view(address: str) -> None:
    """Take in all events until the end."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    connection.request("GET", "/events")
    for _ in connection.getresponse():
        pass


if __name__ == "__main__":
    main()
