"""Experiments on a cluster whose runs wait for a gate, so that tests can disturb them."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from coterie.cluster.engine import RayEngine
from coterie.experiments.config import RunConfig
from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.user_strategies import load_strategies
from coterie.runtime.round_metrics import RoundMetrics

GATE_ROUND = 6
"""In this round, runs of the strategy below wait until the gate is open."""
SETTINGS = {"peers.count": 4, "rounds": 8, "checkpoint_every": 2, "test_every": 4}
STRATEGY = """
import time
from pathlib import Path
from gate import GATE, GATE_ROUND
from coterie.strategies.random import Random

class Patient(Random):
    name = "patient"

    def round(self, me):
        deadline = time.monotonic() + 60
        while me.round == GATE_ROUND and not Path(GATE).exists():
            assert time.monotonic() < deadline, "nothing opened the gate"
            time.sleep(0.01)
        yield from super().round(me)
"""


@dataclass
class Heard:
    """What an experiment reported."""

    rounds: dict[str, list[int]] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@dataclass
class Patience:
    """Experiments whose runs wait for a gate, in a folder of their own."""

    folder: Path
    gate: Path

    def write_strategy(self) -> None:
        """Write the strategy into two files, as a user may have it, and load it."""
        source = self.folder / "source"
        source.mkdir()
        values = f"GATE, GATE_ROUND = {str(self.gate)!r}, {GATE_ROUND}"
        (source / "gate.py").write_text(values)
        (source / "patient.py").write_text(STRATEGY)
        load_strategies([str(source / "patient.py")])

    def create(self, name: str, *seeds: int) -> Experiment:
        """Create an experiment of the strategy, one run per seed."""
        return Experiment.create(self.folder / name, configs_of(*seeds))

    def run(
        self,
        experiment: Experiment,
        engine: RayEngine | None,
        disturb: Callable[[RunFolder, int], None] = lambda run, round_number: None,
    ) -> Heard:
        """Run or continue an experiment; `disturb` is called after each round."""
        heard = Heard()

        def on_round(run: RunFolder, now: RoundMetrics) -> None:
            heard.rounds.setdefault(run.folder.name, []).append(now.round)
            disturb(run, now.round)

        experiment.run(
            threads=1,
            on_round=on_round,
            on_end=lambda run: heard.ends.append(run.folder.name),
            tell=heard.messages.append,
            engine=engine,
        )
        return heard

    def open_gate(self) -> None:
        """Let all runs continue."""
        self.gate.touch()

    def open_gate_later(self) -> None:
        """Let all runs continue when the workers have surely been asked to stop."""
        threading.Timer(1.0, self.open_gate).start()


def configs_of(*seeds: int, **changes: object) -> Sequence[RunConfig]:
    """Return the configurations of short runs of the strategy."""
    settings = {**SETTINGS, "strategy.fetches": 2, **changes}
    return find_preset("digits").runs(["patient"], seeds, settings)


def scratch_of(run: RunFolder) -> Path:
    """Return the folder of temporary files in which a worker executes a run."""
    name = run.folder.name
    # Other processes may test runs of this name at the same time.
    (found,) = (
        folder
        for folder in Path(tempfile.gettempdir()).glob(f"coterie-run-*/{name}")
        if _is_below_this_process(int(folder.parent.name.split("-")[2]))
    )
    return found


def _is_below_this_process(number: int) -> bool:
    try:
        return any(parent.pid == os.getpid() for parent in psutil.Process(number).parents())
    except psutil.NoSuchProcess:
        return False


def worker_of(run: RunFolder) -> int:
    """Return the number of the process that executes a run."""
    return int(scratch_of(run).parent.name.split("-")[2])


def results_of(experiment: Experiment) -> dict[str, bytes]:
    """Return the files of all runs, without times."""
    names = ("timings.parquet", "started.json", ".lock")
    return {
        f"{run.folder.name}/{path.relative_to(run.folder)}": path.read_bytes()
        for run in experiment.runs
        for path in run.folder.rglob("*")
        if path.is_file() and path.name not in names
    }


def interrupt_this_process() -> None:
    """Send Ctrl-C to this process."""
    os.kill(os.getpid(), signal.SIGINT)


def wait_until_no_worker_is_left() -> None:
    """Wait until Ray has ended the workers that were killed."""
    deadline = time.monotonic() + 20
    while num_workers():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def num_workers() -> int:
    """Return how many workers there are on this computer."""
    return len(processes_of("RunWorker"))


def processes_of(actor: str) -> list[int]:
    """Return the numbers of the processes of a kind of actor, of this process's clusters."""
    return [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if f"ray::{actor}" in " ".join(each.info["cmdline"] or ())
        and _is_below_this_process(each.pid)
    ]
