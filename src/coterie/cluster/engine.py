"""The engine that runs the runs of experiments on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coterie.cluster.connection import ClusterInfo, alive_nodes, connect
from coterie.cluster.many_runs import ManyRuns
from coterie.cluster.sharded_runs import ShardedRuns
from coterie.cluster.worker_needs import WorkerNeeds, find_needs
from coterie.errors import ConfigError
from coterie.experiments.engine import Execute, OnMessage, OnRunEnd
from coterie.experiments.run_folder import RunFolder
from coterie.learning.trainer_choice import Tell


class RayEngine:
    """Runs each run on a node of the cluster to which this process is connected."""

    def __init__(
        self,
        cluster: ClusterInfo,
        *,
        threads: int | None = None,
        side_by_side: int | None = None,
        num_shards: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._threads = threads
        self._side_by_side = side_by_side
        self._sharded = None if num_shards is None else ShardedRuns(num_shards, threads or 1)
        self.execute: Execute | None = None if self._sharded is None else self._sharded.execute

    def close(self) -> None:
        """End the processes that stay for further runs."""
        if self._sharded is not None:
            self._sharded.close()

    def open_pool(
        self,
        waiting: Sequence[RunFolder],
        folder: Path,
        tell: Tell,
        *,
        on_message: OnMessage,
        on_end: OnRunEnd,
    ) -> ManyRuns:
        """Return a pool for the waiting runs of the experiment in `folder`."""
        threads = self._threads or self._share_of_cpus(len(waiting))
        needs = find_needs([run.config for run in waiting], threads)
        self._check_fit(needs, tell)
        count = min(len(waiting), self._side_by_side or len(waiting))
        return ManyRuns(
            count, needs=needs, folder=folder, tell=tell, on_message=on_message, on_end=on_end
        )

    def _share_of_cpus(self, num_runs: int) -> int:
        """Return the threads of each run: 1, or more if there are more CPUs than runs."""
        largest = max((int(node.get("CPU", 0)) for node in _nodes()), default=1)
        return max(1, min(largest, self._cluster.num_cpus // num_runs))

    def _check_fit(self, needs: WorkerNeeds, tell: Tell) -> None:
        """Refuse a run that no node can run; on a cluster that may grow, only say so."""
        nodes = _nodes()
        if any(needs.fit(node) for node in nodes):
            return
        if self._cluster.is_own:
            raise ConfigError(
                f"A run needs {needs}, but this computer has less: {_describe(nodes)}. Use fewer "
                "--threads, or fewer or smaller peers."
            )
        tell(
            f"A run needs {needs}, but no node has that: {_describe(nodes)}. Waiting for such a "
            "node; press Ctrl-C to stop."
        )


@contextmanager
def open_ray_engine(
    address: str | None,
    tell: Tell,
    *,
    threads: int | None = None,
    side_by_side: int | None = None,
    num_shards: int | None = None,
) -> Iterator[RayEngine]:
    """Connect to a cluster and return its engine; see `connect`.

    Parameters
    ----------
    address
        None for this computer alone, "auto", or HOST:PORT.
    tell
        Shows a message to the user.
    threads
        The threads, and CPUs, of each run. By default 1, or more if there are more CPUs than runs.
    side_by_side
        The most runs at a time. By default as many as the cluster has room for.
    num_shards
        The shards into which each run is divided, so that runs come one after another. `threads`
        are then those of each shard, by default 1.
    """
    # Shards share the cores of a computer that has fewer of them.
    num_cpus = max(os.cpu_count() or 1, (num_shards or 1) * (threads or 1))
    with connect(address, tell, num_cpus=num_cpus) as cluster:
        engine = RayEngine(
            cluster, threads=threads, side_by_side=side_by_side, num_shards=num_shards
        )
        try:
            yield engine
        finally:
            engine.close()


def _nodes() -> list[dict[str, float]]:
    """Return the resources of the nodes."""
    return [node["Resources"] for node in alive_nodes()]


def _describe(nodes: Sequence[dict[str, float]]) -> str:
    sizes = [
        f"{int(node.get('CPU', 0))} CPUs, {node.get('memory', 0) / 1e9:.1f} GB, "
        f"{int(node.get('GPU', 0))} GPUs"
        for node in nodes
    ]
    return "; ".join(dict.fromkeys(sizes))
