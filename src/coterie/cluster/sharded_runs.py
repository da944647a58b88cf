"""Executes runs whose peers are divided into shards on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.cluster.ray_shards import RayShards, ShardActors, ShardLost
from coterie.cluster.shard_actor import ParcelRecipe
from coterie.cluster.shipping import pack_run
from coterie.cluster.worker_needs import find_needs
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import WorkerDied
from coterie.experiments.config import RunConfig
from coterie.experiments.execution import execute
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell
from coterie.runtime.checkpoints import Checkpoints
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.sharded_simulation import ShardedSimulation
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy

MAX_LOSSES = 3
"""A run fails after this many losses of shards without a new checkpoint."""


class ShardedRuns:
    """Executes one run after another, each in `num_shards` shards of `threads` threads."""

    def __init__(self, num_shards: int, threads: int) -> None:
        self._num_shards = num_shards
        self._threads = threads
        self._actors = ShardActors()

    def close(self) -> None:
        """End the processes of shards."""
        self._actors.close()

    def execute(
        self,
        run: RunFolder,
        scenario: Callable[[], PeerDatasets],
        *,
        tell: Tell = print,
        **how: Any,
    ) -> None:
        """Run, or resume, one run; see `execution.execute`.

        After the loss of a shard the run continues from its last checkpoint, in new shards.
        """
        num_losses, last = 0, -1
        while True:
            try:
                execute(run, scenario, tell=tell, open_simulation=self._open, **how)
                return
            except ShardLost as error:
                saved = _last_checkpoint(run)
                num_losses, last = (num_losses + 1, last) if saved == last else (1, saved)
                if num_losses >= MAX_LOSSES:
                    raise WorkerDied(
                        f"{error} This has happened {MAX_LOSSES} times without a new checkpoint. "
                        "Use more nodes or nodes with more memory, more --shards, or fewer or "
                        "smaller peers, then resume: the run continues from its last checkpoint."
                    ) from None
                tell(f"{error} The run continues from its last checkpoint in new shards.")

    def _open(
        self, config: RunConfig, datasets: PeerDatasets, *, threads: int = 1, tell: Tell = print
    ) -> ShardedSimulation:
        """Return the simulation of a run; `threads` of the command are those of a shard."""
        has_server = issubclass(STRATEGIES[config.strategy["name"]], ServerStrategy)
        count = 1 if has_server else min(self._num_shards, datasets.num_peers)
        if has_server and self._num_shards > 1:
            tell(f"Strategy '{config.strategy['name']}' has a server, so it runs in one shard.")
        plan = ShardPlan(datasets.num_peers, count)
        needs = find_needs([config], self._threads, num_shards=count)
        recipe = ParcelRecipe(pack_run(config))
        group = RayShards(recipe, plan, needs, self._actors, tell)
        return ShardedSimulation(datasets, config, group, has_server=has_server)


def _last_checkpoint(run: RunFolder) -> int:
    """Return the round after the newest checkpoint; −1 without one."""
    return Checkpoints(run.folder / "checkpoints").newest_round
