"""Markers that tests get by where they are and what they use, so that none is forgotten."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
SLOW = (
    "browser",
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
BROWSER = "browser_command"
"""The fixture that finds a browser."""
NETWORK = ("network_of_peers", "peer_processes")
"""Modules of tests that open connections between processes or peers of this computer."""
CONNECTING = ("socket.bind", "socket.connect")


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark slow tests, those that need a browser, and those that open network connections."""
    for item in items:
        if set(item.path.relative_to(TESTS).parts) & set(SLOW):
            item.add_marker("slow")
        if BROWSER in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if _imports_network(item):
            item.add_marker("network")


def check_slow() -> None:
    """Refuse a name in the list of slow tests that no test has any more."""
    for name in SLOW:
        if not any(TESTS.rglob(name)):
            raise pytest.UsageError(f"tests/markers.py lists {name}, which is not in tests/.")


def _imports_network(item: pytest.Item) -> bool:
    module = getattr(item, "module", None)
    origins = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    names = {origin.rpartition(".")[2] for origin in origins}
    return bool(names & set(NETWORK))


class NetworkGuard:
    """Fails a test that opens a connection without the marker `network`.

    It sees this process only, and no connection that gRPC opens in its own code.
    """

    def __init__(self) -> None:
        self.test: pytest.Item | None = None
        sys.addaudithook(self._notice)

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.test is None or event not in CONNECTING or not isinstance(arguments[1], tuple):
            return
        if self.test.get_closest_marker("network") is None:
            raise RuntimeError(f"{self.test.nodeid} opens a connection: mark it as network")
