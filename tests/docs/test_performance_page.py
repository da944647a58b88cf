"""The page about performance is written from what is kept, and compares equal work."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from pages import ROOT
from scripts import script

PAGE = ROOT / "docs" / "performance.md"
ADAPTERS = ROOT / "benchmarks" / "rivals"
performance, kept = script("write_performance_page"), script("performance_page.kept")


def test_the_page_is_that_of_what_is_kept():
    assert PAGE.read_text() == performance.page(performance.read()), (
        "run: .venv/bin/python tools/write_performance_page.py"
    )


def test_every_framework_has_an_adapter_and_says_what_differs():
    adapters = {path.stem.removeprefix("with_") for path in ADAPTERS.glob("with_*.py")}
    assert adapters == set(performance.SHOWN) == set(performance.DIFFERENCES)


def test_rates_are_of_the_best_run_and_memory_of_the_median():
    def run(peers, cpu, megabytes):
        return {
            "framework": "fluke", "peers": peers, "peer_rounds": 60, "cpu_seconds": cpu,
            "wall_seconds": 2 * cpu, "peak_megabytes": megabytes,
        }  # fmt: skip

    runs = [run(2, 1, 10), run(22, 3, 50), run(22, 2, 30), run(22, 6, 31)]
    runs.append({"framework": "fluke", "peers": 100, "failed": "no memory"})
    found = kept.Comparison({"baseline_peers": 2, "runs": runs})
    assert found.measured("fluke", 22) == kept.Measured(30, 15, 31)
    assert found.kilobytes_per_peer("fluke", 22) == pytest.approx(21_000 / 20)
    assert found.measured("fluke", 100) is None
    runs += [run(100, 4, 90), run(100, 3, 90)]
    assert found.largest_spread() == pytest.approx(0.25)
    assert found.failure("fluke") == "With 100 peers: no memory."


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coterie", "torch"])
def test_adapters_that_need_no_other_package_run(name, tmp_path):
    labels = np.arange(256, dtype=np.uint8) % 10
    (tmp_path / "labels.bin").write_bytes(labels.tobytes())
    (tmp_path / "images.bin").write_bytes(np.repeat(labels, 28 * 28).tobytes())
    options = ("--peers", "3", "--rounds", "2", "--data", str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(ADAPTERS / f"with_{name}.py"), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["peer_rounds"] == 6
    assert 0 < measured["cpu_seconds"] < 60
