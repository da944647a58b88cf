"""A whole round of DAC as its paper sets it, but on made-up images: what a peer-round costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.benchmarking.timing import CompiledTime, Effort, Tick, compiled_time
from coterie.data.peer_arrays import PeerArrays, PeerData
from coterie.experiments.config import RunConfig, build_model
from coterie.experiments.presets import find_preset
from coterie.learning.native.library import find_library
from coterie.models.architectures import architecture
from coterie.randomness import generator
from coterie.simulation.simulation import Simulation
from coterie.strategies import make_strategy

PRESET, STRATEGY = "dac-cifar-rotation4", "dac"
NUM_CLUSTERS = 4
# More rounds than anybody measures, and none of those is tested.
ENDLESS = {"rounds": 10**6, "test_every": 10**6}
TORCH_REPEATS = 2
"""Without compiled code a round takes a minute."""


@dataclass(frozen=True)
class RoundSpeed:
    """A round with one number of threads, at its best."""

    threads: int
    cpu_seconds_per_peer_round: float
    """Of all threads together."""
    peer_rounds_per_second: float
    """By wall time."""
    compiled_share: float | None
    """The share of CPU time inside compiled code; None: there is none."""


@dataclass(frozen=True)
class Lap:
    """One measured round."""

    wall_seconds: float
    cpu_seconds: float
    compiled_seconds: float


def round_config(effort: Effort) -> RunConfig:
    """Return the settings of the round, with compiled code if there is any."""
    trainer = "torch" if isinstance(find_library(), str) else "native"
    changes = {**ENDLESS, "training.trainer": trainer, **effort.round_changes}
    return find_preset(PRESET).runs([STRATEGY], [0], changes)[0]


def describe_round(config: RunConfig) -> str:
    """Say what is measured, such as "dac round, cifar-cnn, 100 peers, 400/100 images, …"."""
    peers = config.peers
    return (
        f"{STRATEGY} round, {config.model.name}, {peers.count} peers, "
        f"{peers.train_size}/{peers.validation_size} images, E={config.training.epochs}, "
        f"m={config.strategy_options()['fetches']}"
    )


def num_laps(effort: Effort) -> int:
    """Return how many rounds are run, with the initial training."""
    has_torch_only = isinstance(find_library(), str)
    return 1 + (min(TORCH_REPEATS, effort.repeats) if has_torch_only else effort.repeats)


def measure_rounds(effort: Effort, max_threads: int, tick: Tick) -> list[RoundSpeed]:
    """Measure rounds on one thread and on `max_threads`, in turn; with torch on one alone.

    The initial training is left out. Results do not depend on the number of threads, so that all
    sides do the same work.
    """
    config = round_config(effort)
    datasets = random_datasets(config)
    library = find_library()
    with ExitStack() as stack:
        inside = CompiledTime()
        counts = [1]
        if not isinstance(library, str):
            counts = sorted({1, max_threads})
            stack.enter_context(compiled_time(library, inside))
        simulations = [
            stack.enter_context(_simulation(config, datasets, threads)) for threads in counts
        ]
        laps: list[list[Lap]] = [[] for _ in counts]
        for number in range(num_laps(effort)):
            for simulation, mine in zip(simulations, laps, strict=True):
                lap = _lap(simulation, inside)
                if number > 0:
                    mine.append(lap)
            tick(STRATEGY)
    return [
        _speed(threads, config.peers.count, mine)
        for threads, mine in zip(counts, laps, strict=True)
    ]


def random_datasets(config: RunConfig) -> PeerArrays:
    """Return peers with random images, the same ones within a cluster, each in its own memory."""
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


def _simulation(config: RunConfig, datasets: PeerArrays, threads: int) -> Simulation:
    return Simulation(
        datasets,
        lambda: build_model(config, datasets.num_outputs),
        lambda: make_strategy(STRATEGY, config.strategy_options()),
        config,
        threads=threads,
    )


def _lap(simulation: Simulation, inside: CompiledTime) -> Lap:
    wall, cpu, compiled = time.perf_counter(), time.process_time(), inside.seconds
    simulation.advance()
    return Lap(time.perf_counter() - wall, time.process_time() - cpu, inside.seconds - compiled)


def _speed(threads: int, num_peers: int, laps: Sequence[Lap]) -> RoundSpeed:
    compiled = sum(lap.compiled_seconds for lap in laps)
    return RoundSpeed(
        threads,
        min(lap.cpu_seconds for lap in laps) / num_peers,
        num_peers / min(lap.wall_seconds for lap in laps),
        compiled / sum(lap.cpu_seconds for lap in laps) if compiled else None,
    )
