"""Measures whole rounds of DAC with the settings of its paper, on random images."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.benchmarking.timing import CompiledTime, Tick, Workload, time_compiled_code
from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.experiments.config import RunConfig
from coterie.experiments.execution import simulation_of
from coterie.experiments.presets import find_preset
from coterie.learning.native.library import find_library
from coterie.models.architectures import architecture
from coterie.randomness import generator
from coterie.simulation.simulation import Simulation

PRESET, STRATEGY = "dac-cifar-rotation4", "dac"
NUM_CLUSTERS = 4
# More rounds than are measured, and none of them is tested.
ENDLESS = {"rounds": 10**6, "test_every": 10**6}
TORCH_REPEATS = 2
"""Rounds to measure without compiled code: each takes a minute."""


@dataclass(frozen=True)
class RoundSpeed:
    """The best round with a number of threads."""

    threads: int
    cpu_seconds_per_peer_round: float
    """The sum of all threads."""
    peer_rounds_per_second: float
    """In wall time."""
    compiled_share: float | None
    """The share of CPU time in compiled code; None without compiled code."""


@dataclass(frozen=True)
class RoundTime:
    """The times of one round."""

    wall_seconds: float
    cpu_seconds: float
    compiled_seconds: float


def round_config(workload: Workload) -> RunConfig:
    """Return the settings of the round, with compiled code if available."""
    trainer = "torch" if isinstance(find_library(), str) else "native"
    changes = {**ENDLESS, "training.trainer": trainer, **workload.round_changes}
    return find_preset(PRESET).runs([STRATEGY], [0], changes)[0]


def describe_round(config: RunConfig) -> str:
    """Return a description such as "dac round, cifar-cnn, 100 peers, 400/100 images, …"."""
    peers = config.peers
    return (
        f"{STRATEGY} round, {config.model.name}, {peers.count} peers, "
        f"{peers.train_size}/{peers.validation_size} images, E={config.training.epochs}, "
        f"m={config.strategy_options()['fetches']}"
    )


def num_measured_rounds(workload: Workload) -> int:
    """Return the number of rounds to run, with the initial training."""
    has_torch_only = isinstance(find_library(), str)
    return 1 + (min(TORCH_REPEATS, workload.repeats) if has_torch_only else workload.repeats)


def measure_rounds(workload: Workload, max_threads: int, tick: Tick) -> list[RoundSpeed]:
    """Measure rounds on one thread and on `max_threads`, in turn; with torch only on one.

    The initial training is left out. Results do not depend on the number of threads, so each number
    of threads does the same work.
    """
    config = round_config(workload)
    datasets = random_datasets(config)
    library = find_library()
    with ExitStack() as stack:
        compiled = CompiledTime()
        counts = [1]
        if not isinstance(library, str):
            counts = sorted({1, max_threads})
            stack.enter_context(time_compiled_code(library, compiled))
        simulations = [
            stack.enter_context(simulation_of(config, datasets, threads=threads))
            for threads in counts
        ]
        times: list[list[RoundTime]] = [[] for _ in counts]
        for number in range(num_measured_rounds(workload)):
            for simulation, mine in zip(simulations, times, strict=True):
                each = _time_round(simulation, compiled)
                if number > 0:
                    mine.append(each)
            tick(STRATEGY)
    return [
        _speed(threads, config.peers.count, mine)
        for threads, mine in zip(counts, times, strict=True)
    ]


def random_datasets(config: RunConfig) -> PeerArrays:
    """Return peers with random images; peers of a cluster have equal images in separate memory."""
    model = architecture(config.model.name)
    rng = generator(0, "benchmark", "peers")

    def part(count: int) -> tuple[Any, Any]:
        inputs = rng.standard_normal((count, *model.input_shape), dtype=np.float32)
        # All classes occur: the number of outputs depends on it.
        return inputs, rng.permutation(np.arange(count) % model.default_outputs)

    sizes = config.peers.train_size, config.peers.validation_size, model.default_outputs
    kinds = [PeerData(*map(part, sizes)) for _ in range(NUM_CLUSTERS)]
    clusters = [peer % NUM_CLUSTERS for peer in range(config.peers.count)]
    return PeerArrays([kinds[cluster] for cluster in clusters], clusters)


def _time_round(simulation: Simulation, compiled: CompiledTime) -> RoundTime:
    wall, cpu, before = time.perf_counter(), time.process_time(), compiled.seconds
    simulation.advance()
    return RoundTime(
        time.perf_counter() - wall, time.process_time() - cpu, compiled.seconds - before
    )


def _speed(threads: int, num_peers: int, times: Sequence[RoundTime]) -> RoundSpeed:
    compiled = sum(each.compiled_seconds for each in times)
    return RoundSpeed(
        threads,
        min(each.cpu_seconds for each in times) / num_peers,
        num_peers / min(each.wall_seconds for each in times),
        compiled / sum(each.cpu_seconds for each in times) if compiled else None,
    )
