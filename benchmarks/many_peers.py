"""Many peers: memory, time and bytes per peer-round of up to 100,000 peers with little data each.

usage: python benchmarks/many_peers.py [--problem digits|cifar] [--strategies dac,kin]
       [--peers N ...] [--data-root DIR] [--threads N] [--save] [--in-turn]

digits: the bundled digits, digits-cnn, 16 images for each part of a peer's data. cifar: real
CIFAR-10, cifar-cnn, 25 images. Both are rotated four ways. There are not images enough for so many
peers: each draws its own from its cluster's quarter of them, so that several may have the same one.
Memory is the largest sum of the processes' proportional shares: what is shared counts once. Times
are CPU seconds of three rounds after the initial training. `--save` keeps the figures.

On a computer with other work, times of runs one after the other cannot be compared. `--in-turn`
keeps one large network and twelve small ones in a process. It runs the same round of six small ones
before each round of the large one, and of six after it.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from keeping import show

from coterie.benchmarking.machine import describe_machine
from coterie.data.peer_datasets import PeerDatasets
from coterie.data.pools import PeerSamples, Samples
from coterie.data.scenario import Scenario
from coterie.experiments.config import RunConfig, build_model, make_scenario
from coterie.experiments.presets import find_preset
from coterie.randomness import generator
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

ROUNDS = 3
NUM_CLUSTERS = 4
FETCHES = 5
IN_TURN = 12
"""Small networks whose rounds are compared with those of a large one."""


@dataclass(frozen=True)
class Problem:
    """What the peers learn; a quarter of the images belongs to each cluster."""

    preset: str
    each_cluster: dict[str, int]
    num_images: int
    """Images of each part of a peer's data."""
    sizes: tuple[int, ...]
    """Numbers of peers. The smallest one comes twice: the machine may have become slower."""


PROBLEMS = {
    "digits": Problem(
        "digits",
        {"peers.train_size": 240, "peers.validation_size": 96, "peers.test_size": 96},
        16,
        (1000, 10_000, 100_000, 1000),
    ),
    "cifar": Problem(
        "dac-cifar-rotation4",
        {"peers.train_size": 12_000, "peers.validation_size": 500, "peers.test_size": 1000},
        25,
        (100, 1000, 10_000, 100),
    ),
}


class Crowd(PeerDatasets):
    """Many peers that draw their images from those of a few."""

    def __init__(self, few: Scenario, num_peers: int, num_images: int) -> None:
        self._few = few
        self._num_images = num_images
        self.num_peers = num_peers
        self.cluster_names = few.cluster_names
        self.input_shape = few.input_shape
        self.num_outputs = few.num_outputs
        self.task = few.task
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
            chosen = rng.choice(part.rows(), self._num_images, replace=False)
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


def measure(
    problem: Problem, num_peers: int, strategy: str, threads: int, root: str | None
) -> dict[str, Any]:
    """Run some rounds; return peak memory, and the time and bytes of a peer-round."""
    memory = PeakMemory()
    memory.start()
    config = _config(problem, strategy, root)
    crowd = Crowd(make_scenario(config), num_peers, problem.num_images)
    rounds = _rounds(config, crowd, threads)
    memory.stop()
    return {
        "strategy": strategy,
        "peers": num_peers,
        "peak_memory_megabytes": round(memory.peak_bytes / 1e6),
        **{name: [each[name] for each in rounds] for name in rounds[0]},
    }


def _config(problem: Problem, strategy: str, root: str | None) -> RunConfig:
    changes: dict[str, Any] = {
        "peers.count": NUM_CLUSTERS,
        "rounds": ROUNDS,
        "test_every": ROUNDS,
        **problem.each_cluster,
    }
    if root is not None:
        changes["data.root"] = root
    return find_preset(problem.preset).runs([strategy], [0], changes)[0]


def compare_in_turn(
    problem: Problem, sizes: Sequence[int], strategy: str, threads: int, root: str | None
) -> dict[str, Any]:
    """Return the times of a peer-round of the smallest and the largest network, in turn."""
    config = _config(problem, strategy, root)
    few = make_scenario(config)
    with ExitStack() as stack:
        large, *small = (
            stack.enter_context(
                _simulation(config, Crowd(few, num_peers, problem.num_images), threads)
            )
            for num_peers in (max(sizes), *(IN_TURN * [min(sizes)]))
        )
        for simulation in (large, *small):
            simulation.advance()
        rounds, ratios = [], []
        for _ in range(ROUNDS):
            before = [_time_of_round(each) for each in small[: IN_TURN // 2]]
            middle = _time_of_round(large)
            after = [_time_of_round(each) for each in small[IN_TURN // 2 :]]
            rounds.append({"before": before, "large": middle, "after": after})
            ratios.append(round(middle / float(np.median(before + after)), 3))
    return {
        "strategy": strategy,
        "sizes": [min(sizes), max(sizes)],
        "cpu_milliseconds_per_peer_round": rounds,
        "ratio_to_the_median": ratios,
    }


def _time_of_round(simulation: Simulation) -> float:
    start = time.process_time()
    simulation.advance()
    return round(1e3 * (time.process_time() - start) / simulation.state.num_peers, 3)


def _simulation(config: RunConfig, datasets: PeerDatasets, threads: int) -> Simulation:
    return Simulation(
        datasets,
        lambda: build_model(config, datasets.num_outputs),
        # The preset lowered this option for four peers.
        lambda: make_strategy(
            config.strategy["name"], config.strategy_options() | {"fetches": FETCHES}
        ),
        config,
        threads=threads,
    )


def _rounds(config: RunConfig, datasets: PeerDatasets, threads: int) -> list[dict[str, float]]:
    """Return what each round after the initial training took, per peer."""
    rounds = []
    with _simulation(config, datasets, threads) as simulation:
        simulation.advance()
        while not simulation.finished:
            start = time.process_time()
            now = simulation.advance()
            seconds = time.process_time() - start
            exchanged = now.exchanges.columns()
            rounds.append(
                {
                    "cpu_milliseconds_per_peer_round": round(1e3 * seconds / datasets.num_peers, 3),
                    "models_per_peer_round": len(exchanged["bytes"]) / datasets.num_peers,
                    "bytes_per_peer_round": round(exchanged["bytes"].sum() / datasets.num_peers),
                }
            )
    return rounds


def main() -> None:
    """Measure every scenario and print, and keep, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problem", choices=PROBLEMS, default="digits")
    parser.add_argument("--strategies", default="dac,kin")
    parser.add_argument("--peers", type=int, nargs="+")
    parser.add_argument("--data-root")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--in-turn", action="store_true")
    options = parser.parse_args()
    problem = PROBLEMS[options.problem]
    report = describe_machine() | {"threads": options.threads, "problem": options.problem}
    report["results"] = []
    sizes = options.peers or problem.sizes
    work: Callable[..., dict[str, Any]] = compare_in_turn if options.in_turn else measure
    for strategy in options.strategies.split(","):
        for size in [sizes] if options.in_turn else sizes:
            # Each in a process of its own, so that no memory is left over from the one before.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                job = process.submit(
                    work, problem, size, strategy, options.threads, options.data_root
                )
                report["results"].append(job.result())
            print(report["results"][-1], flush=True)
    name = f"many-peers-{options.problem}" + ("-in-turn" if options.in_turn else "")
    show(report, name, save=options.save)


if __name__ == "__main__":
    main()
