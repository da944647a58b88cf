"""Real peers as processes of this computer, slowed down, held and harmed as a test decides."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import yaml
from harmed_peers import HELD, HOLD, run_harmed

from coterie.data.scenario import Scenario
from coterie.experiments.config import RunConfig, make_scenario
from coterie.experiments.presets import find_preset
from coterie.peer.peer_run import RUN, PeerStatus, read_status
from coterie.peer.security.identity import load_identity
from coterie.runtime.run_tables import read_table
from coterie.swarm import peer_processes
from coterie.swarm.peer_folders import create_peer_folders

PATIENCE_SECONDS = 90.0
"""For what is bound to happen, on a machine of any speed."""
EVERY_SECONDS = 0.3
"""How often a round begins at most: rounds that just spin would take the whole machine."""
NETWORK = {
    "deadlines": {
        "connect_seconds": 5,
        "call_seconds": 5,
        "fetch_seconds": 5,
        "score_seconds": 5,
        "round_seconds": 10,
    },
    "breaker": {
        "failures": 2,
        "first_rest_seconds": 0.2,
        "longest_rest_seconds": 1,
        "longest_pause_seconds": 1,
    },
}
"""Short deadlines, yet long enough for a busy machine."""


def network(**deadlines: float) -> dict[str, Any]:
    """Return the settings of the network with other deadlines."""
    return NETWORK | {"deadlines": NETWORK["deadlines"] | deadlines}


def eventually(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for what is bound to happen, and return it."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"in {seconds} s it did not happen: {what}"
        time.sleep(0.05)
    return found


@dataclass
class PeerProcess:
    """The folder of a peer and the process that runs it now."""

    folder: Path
    namespace: str | None = None
    """The network namespace it lives in, as a file."""
    process: BaseProcess | None = None
    peer_id: str = ""

    def __post_init__(self) -> None:
        self.peer_id = load_identity(self.folder).peer_id

    def start(self) -> None:
        """Start it, or start it again."""
        # What an earlier process said must not be taken for what this one says.
        (self.folder / "status.json").unlink(missing_ok=True)
        context = peer_processes._context()
        arguments = (str(self.folder), self.namespace)
        self.process = context.Process(target=run_harmed, args=arguments, daemon=True)
        with peer_processes._without_main():
            self.process.start()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def pid(self) -> int:
        assert self.process is not None
        assert self.process.pid is not None
        return self.process.pid

    def ended(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for the process to end; return its exit code."""
        assert self.process is not None
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"it still runs: {self.log[-2000:]}"
        return self.process.exitcode

    def end(self) -> int:
        """Ask it to end, and wait."""
        self.signal(signal.SIGTERM)
        return self.ended()

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    @property
    def log(self) -> str:
        path = self.folder / peer_processes.LOG
        return path.read_text() if path.exists() else ""

    @property
    def status(self) -> PeerStatus:
        found = read_status(self.folder)
        return found or PeerStatus("", self.peer_id, 0)

    @property
    def round(self) -> int:
        """The last round that has ended."""
        return self.status.round

    @property
    def address(self) -> str:
        return str(self.settings["listen"])

    @property
    def settings(self) -> dict[str, Any]:
        return dict(yaml.safe_load((self.folder / "peer.yaml").read_text()))

    def change(self, **settings: Any) -> None:
        """Change what is in peer.yaml."""
        (self.folder / "peer.yaml").write_text(yaml.safe_dump(self.settings | settings))

    def hold(self, step: str, after: int = 0) -> None:
        """Let it come as far as a step, and no further, after so many that are let through."""
        (self.folder / HELD).unlink(missing_ok=True)
        (self.folder / HOLD).write_text(f"{step} {after}")

    def wait_held(self) -> None:
        eventually((self.folder / HELD).exists, f"{self.folder.name} comes to where it is held")

    def release(self) -> None:
        (self.folder / HOLD).unlink()

    def wait_round(self, number: int) -> None:
        """Wait until a round has ended."""
        eventually(
            lambda: self.round >= number or self._require_alive(),
            f"{self.folder.name} ends round {number}; it is at {self.status}",
        )

    def _require_alive(self) -> None:
        assert self.is_alive, self.log[-2000:]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return what was recorded, up to the last checkpoint."""
        return list(read_table(self.folder / RUN, name).to_pylist())

    def ids(self) -> list[str]:
        """Return the ids behind the numbers of the records."""
        named = json.loads((self.folder / RUN / "peers.json").read_text())
        return [each["id"] for each in named]

    def fetches(self, sender: PeerProcess, since: int = 0) -> list[dict[str, Any]]:
        """Return the fetches from another, in a round or later, that are recorded."""
        ids = self.ids()
        return [
            row
            for row in self.table("exchanges")
            if row["kind"] == "fetch"
            and ids[row["sender"]] == sender.peer_id
            and row["round"] >= since
        ]

    def has_fetched(self, sender: PeerProcess, since: int = 0) -> bool:
        """Return whether a model came from another in a round or later."""
        return any(row["delivered"] for row in self.fetches(sender, since))

    def seconds(self, since: int = 0) -> list[float]:
        """Return how long the rounds took."""
        return [row["wall_seconds"] for row in self.table("timings") if row["round"] >= since]

    def usage(self) -> dict[str, int]:
        """Return what it holds of the system's resources."""
        process = psutil.Process(self.pid)
        return {
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "bytes": process.memory_full_info().uss,
        }


@dataclass
class Swarm:
    """Peers who trust each other; all that still run are ended with it."""

    peers: list[PeerProcess] = field(default_factory=list)

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self.peers:
            if peer.is_alive:
                peer.signal(signal.SIGKILL)
        for peer in self.peers:
            if peer.process is not None:
                peer.ended()

    def start(self, peers: Iterable[PeerProcess] | None = None) -> None:
        for peer in self.peers if peers is None else peers:
            peer.start()


def lay_out_swarm(
    folder: Path,
    count: int,
    *,
    strategy: str = "random",
    aligned: bool = False,
    rounds: int | None = None,
    settings: dict[str, Any] | None = None,
    **settings_of_network: Any,
) -> Swarm:
    """Return the peers of a swarm on the digits, none of which runs yet."""
    config, scenario = _scenario(count, strategy)
    network = NETWORK | settings_of_network
    folders = create_peer_folders(folder, config, scenario, network, aligned=aligned)[:count]
    swarm = Swarm([PeerProcess(each) for each in folders])
    if aligned and rounds is None:
        rounds = 100_000
    for peer in swarm.peers:
        changes = {
            "rounds": rounds,
            "every_seconds": EVERY_SECONDS,
            "linger_seconds": 5,
            "watch": {"beliefs": 0},
        }
        if not aligned:
            changes["roster"] = []
        peer.change(**(changes | (settings or {})))
    return swarm


@functools.lru_cache
def _scenario(count: int, strategy: str) -> tuple[RunConfig, Scenario]:
    changes = {
        "peers.count": count,
        "rounds": 1,
        "training.epochs": 1,
        "peers.train_size": 16,
        "shift.angles": [0, 90],
    }
    (config,) = find_preset("digits").runs([strategy], range(1), changes)
    return config, make_scenario(config)


def copy_of(peer: PeerProcess, folder: Path) -> PeerProcess:
    """Return a peer with the same key in another folder."""
    shutil.copytree(peer.folder, folder)
    return PeerProcess(folder)
