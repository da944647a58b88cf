"""Markers that tests get by where they are and what they use, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SLOW = (
    "browser",
    "cluster",
    "e2e",
    "faults",
    "figures",
    "hostile",
    "properties",
    "studies",
    "swarm",
    "test_docs.py",
    "test_every_combination.py",
    "test_packaging.py",
    "test_sanitized.py",
    "test_site.py",
    "test_stopping.py",
)
"""Folders and files that run whole commands, start processes or try hundreds of random cases."""
NETWORK = (
    "cluster",
    "faults",
    "hostile",
    "swarm",
    "test_observing.py",
    "test_sources.py",
    "test_watch_command.py",
)
"""Folders and files that open connections between processes or threads of this computer."""
CONNECTED = ("live_events", "network_of_peers", "peer_processes")
"""Modules of helpers that do; what imports from them is marked as well."""
BROWSER = "browser_command"
"""The fixture that finds a browser."""
NODES = "nodes"
"""The fixture that starts a Ray cluster of several nodes."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark slow tests, those that need a browser, and those that open network connections."""
    for item in items:
        names = set(item.path.relative_to(TESTS).parts)
        if names & set(SLOW):
            item.add_marker("slow")
        if BROWSER in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if NODES in getattr(item, "fixturenames", ()):
            item.add_marker("long")
        if names & set(NETWORK) or _origins(item) & set(CONNECTED):
            item.add_marker("network")


def check_names() -> None:
    """Refuse a name in the lists that no folder or file of tests has any more."""
    for name in (*SLOW, *NETWORK):
        if not any(TESTS.rglob(name)):
            raise pytest.UsageError(
                f"tests/helpers/markers.py lists {name}, which is not in tests/."
            )


def _origins(item: pytest.Item) -> set[str]:
    """Return the names of the modules that what a test module has imported comes from."""
    values = vars(getattr(item, "module", None) or item).values()
    origins = (getattr(value, "__module__", None) for value in values)
    return {str(origin).rpartition(".")[2] for origin in origins}
