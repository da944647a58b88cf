"""A Ray cluster of two nodes on this computer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_runs import Patience

from coterie.cluster.connection import connect
from coterie.cluster.engine import RayEngine


@pytest.fixture(scope="session")
def nodes() -> Iterator[Any]:
    """Return a cluster of two nodes with one CPU each."""
    import ray
    from ray.cluster_utils import Cluster

    before = signal.getsignal(signal.SIGTERM)
    head = {"num_cpus": 1, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(num_cpus=1)
    ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    signal.signal(signal.SIGTERM, before)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def engine(nodes) -> Iterator[RayEngine]:
    """Return an engine on these nodes; Ray itself stays for other tests."""
    with connect(nodes.address, lambda text: None) as cluster:
        yield RayEngine(cluster, threads=1)


@pytest.fixture
def patience(tmp_path) -> Iterator[Patience]:
    """Return a maker of experiments; their strategy is in two files of a user's own."""
    path, made = list(sys.path), Patience(tmp_path, tmp_path / "open")
    made.write_strategy()
    yield made
    # The next test has other modules of the same names.
    sys.path[:] = path
    for name in ("patient", "gate"):
        sys.modules.pop(name, None)
