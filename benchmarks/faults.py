"""Faults in full size, one by one: python benchmarks/faults.py [--only NAME] [--save].

These are the tests of tests/peer/faults, which run with all others in small; here they have the
sizes that figures are about, such as a cut of 60 s and 20 peers that join at once. Each passes or
fails by itself. Cuts and losses need root, for networks of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from coterie.benchmarking.machine import describe_machine

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
TESTS = ROOT / "tests" / "peer" / "faults"
FAULTS = {
    "kill": "killed_and_stopped.py::test_kill_minus_nine_of_three_of_eight_within_a_round",
    "freeze": "killed_and_stopped.py::test_a_peer_that_is_frozen_and_comes_back",
    "trickle": "slow_peers.py::test_a_peer_that_sends_a_byte_per_second",
    "cut": "networks_that_fail.py::test_a_cut_between_two_halves",
    "loss": "networks_that_fail.py::test_packets_that_are_lost_and_late",
    "join": "joining_and_leaving.py::test_many_join_at_once",
    "churn": "joining_and_leaving.py::test_a_coming_and_going_leaves_nothing_behind",
}
LONGEST_SECONDS = 1800


def main() -> None:
    """Let faults happen one by one and print, and keep, what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=sorted(FAULTS), action="append")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    results = {}
    for name in options.only or FAULTS:
        results[name] = run(name)
        print(json.dumps({name: results[name]}, indent=2), flush=True)
    if options.save:
        keep(results)
    if not all(result["passed"] for result in results.values()):
        sys.exit(1)


def run(name: str) -> dict[str, Any]:
    """Let one fault happen; return what its test has seen."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = {"COTERIE_FAULTS_FULL": "1", "COTERIE_FAULTS_REPORT": str(report)}
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
        command += [f"--timeout={LONGEST_SECONDS}", f"--basetemp={folder}/peers"]
        begun = time.monotonic()
        done = subprocess.run(
            [*command, f"{TESTS}/test_{FAULTS[name]}"],
            cwd=ROOT,
            env=os.environ | environment,
            check=False,
        )
        figures = json.loads(report.read_text()) if report.exists() else {}
    figures.pop("test", None)
    seconds = round(time.monotonic() - begun, 1)
    return {"passed": done.returncode == 0 and bool(figures), "seconds": seconds, **figures}


def keep(results: dict[str, dict[str, Any]]) -> None:
    """Add to what was kept today."""
    about = describe_machine()
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{about['date']}-faults.json"
    before = json.loads(path.read_text())["results"] if path.exists() else {}
    report = about | {"results": before | results}
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
