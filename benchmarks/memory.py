"""Memory of many peers: the preset dac-cifar-rotation4, and 1,000 peers with little data each.

usage: python benchmarks/memory.py [--data-root DIR] [--rounds N] [--threads N] [--save]

Memory is the largest sum of the processes' proportional shares: what is shared counts once. Real
CIFAR-10 is needed; `--save` keeps the figures. Speed is measured by `coterie bench`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from coterie.benchmarking.machine import machine
from coterie.experiment import Experiment
from coterie.presets import find_preset

RESULTS = Path(__file__).parent / "results"
SCENARIOS: dict[str, dict[str, Any]] = {
    "100 peers, 400/100 images": {"peers.count": 100},
    "1000 peers, 25/25 images": {
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
        is_done = False
        while not is_done:
            is_done = self._done.wait(1.0)
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


def measure(changes: dict[str, Any], rounds: int, threads: int, root: str | None) -> int:
    """Run Random for some rounds and return the peak memory in megabytes."""
    settings = {**changes, "rounds": rounds}
    if root is not None:
        settings["data.root"] = root
    configs = find_preset("dac-cifar-rotation4").runs(["random"], [0], settings)
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment.create(Path(folder) / "run", configs)
        memory = PeakMemory()
        memory.start()
        experiment.run(threads=threads)
        memory.stop()
    return round(memory.peak_bytes / 1e6)


def main() -> None:
    """Measure every scenario and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    report = machine() | {"threads": options.threads, "rounds": options.rounds}
    for name, changes in SCENARIOS.items():
        # Each in a process of its own, so that no memory is left over from the one before.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            job = process.submit(
                measure, changes, options.rounds, options.threads, options.data_root
            )
            report[name] = {"peak_memory_megabytes": job.result()}
        print(name, report[name], flush=True)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{report['date']}-memory.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
        print(f"kept in {path}")


if __name__ == "__main__":
    main()
