"""Starts Ray before p2pfl does when it is imported: with workers that can import torchvision."""

from __future__ import annotations

import os
from pathlib import Path

import ray
from work import CORES


def start_ray() -> None:
    """Start Ray with at most one worker per core."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    ray.init(
        "local",  # never a cluster that is already there
        namespace="p2pfl",
        include_dashboard=False,
        num_cpus=CORES,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": "torchvision_on_cpu.prepare_torchvision"},
    )


start_ray()
