"""The work that every framework does, and how an adapter measures it.

K peers, each with 128 images of 28×28 pixels, train a network of 5,258 parameters: batches of 32,
SGD, one epoch and one merge per round. The adapters beside this file import it with the Python of
their framework, so it needs nothing but torch and numpy.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

NUM_SAMPLES = 128
BATCH_SIZE = 32
LEARNING_RATE = 0.05
NUM_CLASSES = 10
NUM_PIXELS = 28 * 28
CORES = 2
"""The largest number of workers or threads of a framework."""
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Options:
    """What an adapter is asked to run."""

    peers: int
    rounds: int
    """Rounds that are measured, after the first one."""
    data: Path
    """A folder with the bytes of all images (images.bin) and labels (labels.bin)."""


def build_network() -> nn.Sequential:
    """Return the network: two convolutions and a linear layer, 5,258 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, NUM_CLASSES),
    )


def read_samples(options: Options, peer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a peer's images (128, 1, 28, 28) in [-1, 1] and labels (128,), in memory of its own.

    Peers have consecutive images. After the last image they start again at the first.
    """
    num_parts = (options.data / "labels.bin").stat().st_size // NUM_SAMPLES
    first = peer % num_parts * NUM_SAMPLES
    labels = np.fromfile(options.data / "labels.bin", np.uint8, NUM_SAMPLES, offset=first)
    pixels = np.fromfile(
        options.data / "images.bin",
        np.uint8,
        NUM_SAMPLES * NUM_PIXELS,
        offset=first * NUM_PIXELS,
    )
    images = pixels.astype(np.float32).reshape(-1, 1, 28, 28) / 127.5 - 1
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


class Meter:
    """Measures rounds: CPU time of this process and all its descendants, and wall time."""

    def __init__(self, options: Options, package: str) -> None:
        """Start to measure; `package` is what is installed from the package index."""
        torch.set_num_threads(1)
        # Processes whose parent ends, such as those of Ray, stay descendants.
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        self._peers = options.peers
        self._versions = {name: importlib.metadata.version(name) for name in (package, "torch")}
        self._peer_rounds: list[int] = []
        self._cpu_seconds: list[float] = []
        self._times: list[float] = []

    def finish_round(self, peer_rounds: int | None = None) -> None:
        """Record the end of a round, in which so many peers trained: all, by default."""
        self._peer_rounds.append(self._peers if peer_rounds is None else peer_rounds)
        self._cpu_seconds.append(cpu_seconds_of_tree())
        self._times.append(time.perf_counter())

    def report(self) -> None:
        """Print the measurement of all rounds but the first, as one line of JSON."""
        figures = {
            "versions": self._versions,
            "peer_rounds": sum(self._peer_rounds[1:]),
            "cpu_seconds": round(self._cpu_seconds[-1] - self._cpu_seconds[0], 4),
            "wall_seconds": round(self._times[-1] - self._times[0], 4),
        }
        print("\n" + json.dumps(figures), flush=True)


def cpu_seconds_of_tree() -> float:
    """Return the CPU time of this process and of all its descendants, also of ended ones."""
    children = defaultdict(list)
    ticks = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children[int(fields[1])].append(int(folder.name))
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    spent, waiting = 0, list(children[os.getpid()])
    while waiting:
        process = waiting.pop()
        spent += ticks[process]
        waiting += children[process]
    mine = os.times()
    return time.process_time() + mine.children_user + mine.children_system + spent / _TICKS


def parse_options() -> Options:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    return Options(**vars(parser.parse_args()))
