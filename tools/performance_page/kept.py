"""The kept session in which all frameworks did the same work."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs_folder import DOCS
from performance_page.text import SHOWN

RESULTS = DOCS.parent / "benchmarks" / "results"
RIVALS = RESULTS / "2026-11-20-rivals.json"
OURS, YARDSTICK = "coterie", "torch"
COMPARED_PEERS = 100


@dataclass(frozen=True)
class Measured:
    """The runs of one framework with one number of peers."""

    cpu_rate: float
    """Peer-rounds per CPU-second, in the best run."""
    wall_rate: float
    peak_megabytes: float
    """The median of the runs."""


class Comparison:
    """What is kept of a session with all frameworks."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept
        self._runs = kept["runs"]
        self.names = [name for name in SHOWN if any(run["framework"] == name for run in self._runs)]
        self.sizes = sorted({run["peers"] for run in self._runs} - {kept["baseline_peers"]})

    def measured(self, name: str, peers: int) -> Measured | None:
        """Return the results of a framework; None if it did not finish."""
        runs = self._finished(name, peers)
        if not runs:
            return None
        return Measured(
            max(self._cpu_rates(name, peers)),
            max(run["peer_rounds"] / run["wall_seconds"] for run in runs),
            statistics.median(run["peak_megabytes"] for run in runs),
        )

    def largest_spread(self) -> float:
        """Return by which share of its best run a framework's worst is slower, with 100 peers."""
        rates = [self._cpu_rates(name, COMPARED_PEERS) for name in self.names]
        return max(1 - min(each) / max(each) for each in rates if each)

    def _cpu_rates(self, name: str, peers: int) -> list[float]:
        return [run["peer_rounds"] / run["cpu_seconds"] for run in self._finished(name, peers)]

    def _finished(self, name: str, peers: int) -> list[dict[str, Any]]:
        return [
            run
            for run in self._runs
            if (run["framework"], run["peers"]) == (name, peers) and "failed" not in run
        ]

    def kilobytes_per_peer(self, name: str, peers: int) -> float | None:
        """Return the increase of memory per peer."""
        few: int = self.kept["baseline_peers"]
        many, baseline = self.measured(name, peers), self.measured(name, few)
        if many is None or baseline is None:
            return None
        grown: float = many.peak_megabytes - baseline.peak_megabytes
        return 1000 * grown / (peers - few)

    def failure(self, name: str) -> str | None:
        """Return why a framework did not finish, and with how many peers."""
        failed = [run for run in self._runs if run["framework"] == name and "failed" in run]
        return f"With {failed[0]['peers']:,} peers: {failed[0]['failed']}." if failed else None

    def version(self, name: str) -> str:
        """Return the version of a framework that was measured."""
        (first, *_) = (run for run in self._runs if run["framework"] == name and "versions" in run)
        return str(next(iter(first["versions"].values())))

    def fastest_rival(self) -> tuple[str, float]:
        """Return the fastest other framework with 100 peers, and its rate."""
        rates = {
            name: found.cpu_rate
            for name in self.names
            if name not in (OURS, YARDSTICK) and (found := self.measured(name, COMPARED_PEERS))
        }
        best = max(rates, key=lambda name: rates[name])
        return best, rates[best]


def read(path: Path = RIVALS) -> Comparison:
    """Return the kept session."""
    return Comparison(read_json(path))


def read_json(path: Path) -> dict[str, Any]:
    """Return what a benchmark kept."""
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept
