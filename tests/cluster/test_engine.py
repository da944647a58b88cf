"""What runs need of a cluster."""

from __future__ import annotations

import pytest
from commands import coterie, refused

from coterie.cluster.connection import ClusterInfo
from coterie.cluster.engine import RayEngine
from coterie.cluster.worker_needs import WorkerNeeds, find_needs
from coterie.errors import ConfigError
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder


def runs(count: int, tmp_path, **changes: object) -> list[RunFolder]:
    configs = find_preset("digits").runs(["random"], range(count), changes)
    return [RunFolder(tmp_path / str(number), each) for number, each in enumerate(configs)]


def open_pool(is_own: bool, waiting: list[RunFolder], tmp_path, threads: int | None) -> list[str]:
    told: list[str] = []
    engine = RayEngine(ClusterInfo("here", is_own, 2, 2), threads=threads)
    engine.open_pool(waiting, tmp_path, told.append, on_message=print, on_end=print)
    return told


def test_a_run_that_fits_nowhere(nodes, tmp_path):
    """A cluster may get another node; this computer does not grow."""
    waiting = runs(1, tmp_path)
    (told,) = open_pool(False, waiting, tmp_path, 64)
    assert "needs 64 CPUs" in told
    assert "Waiting for such a node" in told
    with pytest.raises(ConfigError, match="--threads"):
        open_pool(True, waiting, tmp_path, 64)
    assert open_pool(True, waiting, tmp_path, None) == []


def test_needs_are_those_of_the_largest_run(tmp_path):
    small, large = (
        find_needs([run.config for run in runs(1, tmp_path, **changes)], 2)
        for changes in ({"peers.count": 8}, {"peers.count": 40, "training.device": "cuda"})
    )
    assert (small.cpus, small.gpus, large.gpus) == (2, 0, 1)
    assert large.memory_bytes > small.memory_bytes > 10**8
    both = find_needs([runs(1, tmp_path)[0].config, runs(1, tmp_path)[0].config], 1)
    assert both == find_needs([runs(1, tmp_path)[0].config], 1)


def test_a_node_must_have_all_that_is_needed():
    needs = WorkerNeeds(cpus=2, memory_bytes=10**9, gpus=1)
    node = {"CPU": 4.0, "memory": 2e9, "GPU": 1.0}
    assert needs.fit(node)
    for name in node:
        assert not needs.fit({**node, name: 0.0})


def test_runs_of_real_peers_are_refused(tmp_path):
    folder = tmp_path / "out"
    assert coterie("run", "digits", "--rounds", 0, "--strategy", "local", "--out", folder).code == 0
    path = folder / "local-seed0" / "config.yaml"
    path.write_text(path.read_text().replace("runtime: simulation", "runtime: network"))
    refused(coterie("resume", folder, "--engine", "ray"), 2, "real peers", "--engine ray")
