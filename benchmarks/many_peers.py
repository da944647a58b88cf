"""Many peers: memory, and time per peer-round, of 100 to 10,000 peers with little data each.

usage: python benchmarks/many_peers.py [--strategy NAME] [--data-root DIR] [--threads N] [--save]

Real CIFAR-10, rotated four ways, cifar-cnn. There are not images enough for 10,000 peers: each
draws its own from its cluster's quarter of them, so that several may have the same one. Memory is
the largest sum of the processes' proportional shares: what is shared counts once. Times are CPU
seconds of three rounds after the initial training. `--save` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from coterie.benchmarking.machine import describe_machine
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Samples
from coterie.data.scenario import Scenario
from coterie.experiments.config import RunConfig, build_model, make_scenario
from coterie.experiments.presets import find_preset
from coterie.randomness import generator
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3
NUM_CLUSTERS = 4
EACH_CLUSTER = {"peers.train_size": 12_000, "peers.validation_size": 500, "peers.test_size": 1000}
NUM_IMAGES = 25
# The small one comes before and after the large ones: the machine may have become slower.
SIZES = (100, 1000, 10_000, 100)


class Crowd(PeerDatasets):
    """Many peers that draw their images from those of a few."""

    def __init__(self, few: Scenario, num_peers: int) -> None:
        self._few = few
        self.num_peers = num_peers
        self.cluster_names = few.cluster_names
        self.input_shape = few.input_shape
        self.num_outputs = few.num_outputs
        self.is_classification = few.is_classification
        self.pools = few.pools

    def step_of(self, round_number: int) -> int:
        """One step, for ever."""
        return 0

    def clusters(self, step: int) -> npt.NDArray[np.int64]:
        """Peers belong to the clusters in turn."""
        return np.arange(self.num_peers) % NUM_CLUSTERS

    def load_step(self, step: int) -> list[PeerSamples]:
        """Let every peer draw."""
        few = self._few.load_step(step)
        return [self._draw(few[peer % NUM_CLUSTERS], peer) for peer in range(self.num_peers)]

    def _draw(self, cluster: PeerSamples, peer: int) -> PeerSamples:
        rng = generator(0, "benchmark", "peer", peer)

        def some(part: Samples) -> Samples:
            chosen = rng.choice(part.rows(), NUM_IMAGES, replace=False)
            return Samples(part.pool, part.start, part.stop, chosen)

        return PeerSamples(some(cluster.train), some(cluster.validation), some(cluster.test))


class PeakMemory(threading.Thread):
    """Watches the memory of a process and its children: by default, of this process."""

    def __init__(self, every_seconds: float = 1.0, process_id: int | None = None) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._process = psutil.Process(process_id)
        self._every_seconds = every_seconds
        self._done = threading.Event()

    def run(self) -> None:
        is_done = False
        while not is_done:
            is_done = self._done.wait(self._every_seconds)
            self.peak_bytes = max(self.peak_bytes, _memory_now(self._process))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _memory_now(process: psutil.Process) -> int:
    total = 0
    for each in _with_children(process):
        try:
            total += each.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def _with_children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def measure(num_peers: int, strategy: str, threads: int, root: str | None) -> dict[str, Any]:
    """Run some rounds; return peak memory and the time of a peer-round."""
    changes: dict[str, Any] = {
        "peers.count": NUM_CLUSTERS,
        "rounds": ROUNDS,
        "test_every": ROUNDS,
        **EACH_CLUSTER,
    }
    if root is not None:
        changes["data.root"] = root
    config = find_preset("dac-cifar-rotation4").runs([strategy], [0], changes)[0]
    memory = PeakMemory()
    memory.start()
    seconds = _rounds(config, Crowd(make_scenario(config), num_peers), threads)
    memory.stop()
    return {
        "peers": num_peers,
        "peak_memory_megabytes": round(memory.peak_bytes / 1e6),
        "cpu_milliseconds_per_peer_round": [round(1e3 * each / num_peers, 2) for each in seconds],
    }


def _rounds(config: RunConfig, datasets: PeerDatasets, threads: int) -> list[float]:
    """Return the CPU seconds of each round."""
    seconds = []
    with Simulation(
        datasets,
        lambda: build_model(config, datasets.num_outputs),
        lambda: make_strategy(config.strategy["name"], config.strategy_options()),
        config,
        threads=threads,
    ) as simulation:
        simulation.advance()
        while not simulation.finished:
            start = time.process_time()
            simulation.advance()
            seconds.append(time.process_time() - start)
    return seconds


def main() -> None:
    """Measure every scenario and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root")
    parser.add_argument("--strategy", default="dac")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    report = describe_machine() | {"threads": options.threads, "strategy": options.strategy}
    report["results"] = []
    for num_peers in SIZES:
        # Each in a process of its own, so that no memory is left over from the one before.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            job = process.submit(
                measure, num_peers, options.strategy, options.threads, options.data_root
            )
            report["results"].append(job.result())
        print(report["results"][-1], flush=True)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{report['date']}-many-peers-{options.strategy}.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
        print(f"kept in {path}")


if __name__ == "__main__":
    main()
