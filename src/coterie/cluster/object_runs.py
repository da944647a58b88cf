"""Runs of a Python program, whose data and model are its objects, in shards on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.cluster.connection import connect
from coterie.cluster.ray_shards import RayShards, ShardActors, ShardLost
from coterie.cluster.shard_actor import RunParts
from coterie.cluster.worker_needs import WorkerNeeds, bytes_of_models
from coterie.errors import WorkerDied
from coterie.models.shared_builder import SharedBuilder
from coterie.simulation.any_simulation import AnySimulation
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.sharded_simulation import ShardedSimulation
from coterie.simulation.simulation import check_simulation, tell_lowered
from coterie.strategies.server.server_strategy import ServerStrategy


@dataclass(frozen=True)
class ObjectRecipe:
    """Objects of a program, as they are."""

    parts: RunParts

    def make(self, folder: Path) -> RunParts:
        """Return the parts, with data that may be written to: what Ray ships is read-only."""
        return replace(self.parts, datasets=deepcopy(self.parts.datasets))


@contextmanager
def open_on_ray(
    parts: RunParts, address: str | None, num_shards: int, threads: int
) -> Iterator[AnySimulation]:
    """Connect to a cluster and return a simulation in shards; see `connect`."""
    strategy = parts.make_strategy()
    num_peers = parts.datasets.num_peers
    tell_lowered(strategy.lower_defaults(num_peers), num_peers, print)
    check_simulation(parts.datasets, strategy, parts.settings)
    has_server = isinstance(strategy, ServerStrategy)
    plan = ShardPlan(num_peers, 1 if has_server else num_shards)
    size = SharedBuilder.of(parts.build, parts.settings.seed).layout.size
    needs = WorkerNeeds(
        cpus=threads,
        memory_bytes=bytes_of_models(num_peers, size, plan.num_shards),
        gpus=int(parts.settings.training.device == "cuda"),
    )
    actors = ShardActors()
    with connect(address, print, num_cpus=max(plan.num_shards * threads, 1)):
        try:
            group = RayShards(ObjectRecipe(parts), plan, needs, actors, print)
            with ShardedSimulation(
                parts.datasets, parts.settings, group, has_server=has_server
            ) as simulation:
                yield simulation
        except ShardLost as error:
            raise WorkerDied(
                f"{error} With out=FOLDER the run can be continued: call simulate again with "
                "resume=True."
            ) from None
        finally:
            actors.close()
