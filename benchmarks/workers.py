"""Threads or processes? The same torch jobs done serially, by threads and by forked processes.

usage: python benchmarks/workers.py [WORKERS]

Prints wall seconds, best of three alternated repeats: cifar-cnn, 400 random images, one epoch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from coterie.data.pools import Pool, Samples
from coterie.learning.parallel_trainer import ParallelTrainer
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import ModelReference, TrainJob, Workspace
from coterie.models.architectures import architecture
from coterie.models.vector import initial_vector
from coterie.processes.shared_memory import shared_array
from coterie.tasks import Task

NUM_PEERS, NUM_IMAGES, REPEATS = 16, 400, 3


def main() -> None:
    """Measure the three ways in turn."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.set_num_threads(1)
    model = architecture("cifar-cnn")
    rng = np.random.default_rng(0)
    inputs = shared_array((NUM_IMAGES, *model.input_shape), np.float32)
    inputs[:] = rng.standard_normal(inputs.shape)
    pool = Pool(inputs, rng.integers(0, 10, NUM_IMAGES))
    start = initial_vector(model.build, 1)
    models = shared_array((NUM_PEERS, len(start)), np.float32)
    models[:] = start
    workspace = Workspace([pool], {"current": models})

    def trainer() -> TorchTrainer:
        return TorchTrainer(model.build, TrainingSettings(), workspace, Task())

    jobs = [
        TrainJob(ModelReference("current", peer), Samples(0, 0, NUM_IMAGES), 1, peer)
        for peer in range(NUM_PEERS)
    ]
    serial = trainer()
    forked = ParallelTrainer(trainer(), workers)
    threads = ThreadPoolExecutor(workers)
    own = [trainer() for _ in range(workers)]

    def threaded() -> None:
        parts = [threads.submit(own[n].train, jobs[n::workers]) for n in range(workers)]
        for part in parts:
            part.result()

    ways: dict[str, Callable[[], object]] = {
        "serial": lambda: serial.train(jobs),
        f"{workers} threads": threaded,
        f"{workers} processes": lambda: forked.train(jobs),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(REPEATS):
        for name, work in ways.items():
            begun = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begun)
    for name, seconds in best.items():
        print(f"{name}: {seconds:.2f} s, {best['serial'] / seconds:.2f}× serial")
    forked.close()


if __name__ == "__main__":
    main()
