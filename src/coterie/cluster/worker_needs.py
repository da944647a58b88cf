"""What a worker needs of its node, as resources of Ray."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.experiments.config import RunConfig, find_model
from coterie.experiments.experiment import model_bytes

PROCESS_BYTES = 500 * 10**6
"""A process with torch and all libraries."""
VALUE_BYTES = 4
MATRICES = 5
"""Models that each peer has, with what is copied in a round."""


@dataclass(frozen=True)
class WorkerNeeds:
    """The resources of a worker."""

    cpus: int
    memory_bytes: int
    gpus: int

    def fit(self, resources: Mapping[str, float]) -> bool:
        """Whether a node with these resources can run such a worker when it is idle."""
        return (
            resources.get("CPU", 0) >= self.cpus
            and resources.get("memory", 0) >= self.memory_bytes
            and resources.get("GPU", 0) >= self.gpus
        )

    def options(self) -> dict[str, Any]:
        """Return the options of a Ray actor."""
        return {"num_cpus": self.cpus, "memory": self.memory_bytes, "num_gpus": self.gpus}

    def __str__(self) -> str:
        parts = [f"{self.cpus} CPUs" if self.cpus > 1 else "1 CPU"]
        parts += [f"{self.memory_bytes / 1e9:.1f} GB of memory"]
        return " and ".join([*parts, *["1 GPU"] * self.gpus])


def find_needs(configs: Sequence[RunConfig], threads: int, *, num_shards: int = 1) -> WorkerNeeds:
    """Return what a worker needs that can execute any of these runs, or a shard of each."""
    return WorkerNeeds(
        cpus=threads,
        memory_bytes=max(_memory_bytes(config, num_shards) for config in configs),
        gpus=int(any(config.training.device == "cuda" for config in configs)),
    )


def bytes_of_models(num_peers: int, size: int, num_shards: int) -> int:
    """Return about how much memory a shard needs for models of `size` values, and its process."""
    return PROCESS_BYTES + MATRICES * VALUE_BYTES * num_peers * size // num_shards


def _memory_bytes(config: RunConfig, num_shards: int) -> int:
    """Return about how much memory a shard needs: its models, its samples and the process."""
    values = config.peers.num_samples * math.prod(find_model(config).input_shape)
    return PROCESS_BYTES + (model_bytes(config) + VALUE_BYTES * values) // num_shards
