"""CPU time and memory of a round: K=100, cifar-cnn, 400 images, E=3, m=5; and of 1,000 peers.

usage: python benchmarks/peer_round.py [--data-root DIR] [--rounds N] [--threads N] [--save]

CPU time is that of all processes, per peer and round, without the initial training and without
tests, from the recorder's own timings; memory is the largest sum of the processes' proportional
shares (what is shared counts once). The small peers are tested on 1,000 images per cluster, the
others on all 10,000. Real CIFAR-10 is needed; `--save` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from coterie.experiment import Experiment
from coterie.presets import find_preset
from coterie.simulation.records import read_table

RESULTS = Path(__file__).parent / "results"
SCENARIOS: dict[str, dict[str, Any]] = {
    "100 peers, 400/100 images, E=3, m=5": {"peers.count": 100},
    "100 peers, 25/25 images, E=3, m=5": {
        "peers.count": 100, "peers.train_size": 25, "peers.validation_size": 25,
        "peers.test_size": 1000,
    },
    "1000 peers, 25/25 images, E=3, m=5": {
        "peers.count": 1000, "peers.train_size": 25, "peers.validation_size": 25,
        "peers.test_size": 1000,
    },
}  # fmt: skip


class PeakMemory(threading.Thread):
    """Watches the memory of this process and its children."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(1.0):
            self.peak_bytes = max(self.peak_bytes, _memory_now())

    def stop(self) -> None:
        self._done.set()
        self.join()


def _memory_now() -> int:
    process = psutil.Process()
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def measure(
    changes: dict[str, Any], rounds: int, threads: int, root: str | None
) -> dict[str, float]:
    """Run Random for some rounds and return CPU seconds per peer-round and peak memory."""
    settings = {**changes, "rounds": rounds, "test_every": 10**6}
    if root is not None:
        settings["data.root"] = root
    configs = find_preset("dac-cifar-rotation4").runs(["random"], [0], settings)
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment.create(Path(folder) / "run", configs)
        memory = PeakMemory()
        memory.start()
        experiment.run(threads=threads)
        memory.stop()
        timings = read_table(experiment.runs[0].folder, "timings")
    # Not the first round, which is the initial training, nor the last, which is tested.
    middle = slice(1, rounds)
    peers = configs[0].peers.count
    cpu, wall = (timings[name].to_numpy()[middle] for name in ("cpu_seconds", "wall_seconds"))
    return {
        "cpu_seconds_per_peer_round": round(float(cpu.min()) / peers, 4),
        "cpu_seconds_per_peer_round_mean": round(float(cpu.mean()) / peers, 4),
        "wall_seconds_per_round": round(float(wall.min()), 3),
        "peak_memory_megabytes": round(memory.peak_bytes / 1e6),
    }


def main() -> None:
    """Measure every scenario and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu_name(),
        "threads": options.threads,
        "rounds": options.rounds,
    }
    for name, changes in SCENARIOS.items():
        # Each in a process of its own, so that no memory is left over from the one before.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            job = process.submit(
                measure, changes, options.rounds, options.threads, options.data_root
            )
            report[name] = job.result()
        print(name, report[name], flush=True)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{report['date']}-peer-round.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
        print(f"kept in {path}")


def _cpu_name() -> str:
    """Return the processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")


if __name__ == "__main__":
    main()
