"""The same tests in two sizes: small with all others, full by benchmarks/faults.py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FULL = "COTERIE_FAULTS_FULL"
REPORT = "COTERIE_FAULTS_REPORT"


@pytest.fixture
def is_full() -> bool:
    """Whether there is time for the sizes that the figures are about."""
    return bool(os.environ.get(FULL))


@pytest.fixture
def slack_seconds(is_full: bool) -> float:
    """How much longer than its deadline a round may take: more on a machine that is busy."""
    return 1.0 if is_full else 5.0


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Yield a place for figures; of a test that gets to its end they are kept, if asked for."""
    figures: dict[str, Any] = {}
    yield figures
    path = os.environ.get(REPORT)
    if path and figures:
        with Path(path).open("a") as file:
            file.write(json.dumps({"test": request.node.name, **figures}) + "\n")
