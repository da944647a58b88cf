"""Small real runs to look at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from watching_runs import create


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory) -> Path:
    """Return the folder of two strategies with two seeds each, all finished."""
    folder = tmp_path_factory.mktemp("watching") / "runs"
    experiment = create(folder, ["local", "random"], [0, 1], **{"strategy.fetches": 2})
    experiment.run(threads=1, tell=lambda message: None)
    return folder


@pytest.fixture
def runs(small_runs, tmp_path) -> Path:
    """Return a copy that a test may change."""
    return Path(shutil.copytree(small_runs, tmp_path / "runs"))
