"""The command with a Ray of its own on this computer: stopped, killed and continued."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from cluster_runs import SETTINGS, Patience, results_of
from commands import end, start

from coterie.experiments.experiment import Experiment


def start_until_waiting(patience: Patience, folder: Path):
    """Start a command in its own process group; return when its run waits for the gate."""
    changes = {**SETTINGS, "strategy.fetches": 2}
    process = start(
        *("run", "digits", "--strategy", patience.folder / "source" / "patient.py"),
        *(word for key, value in changes.items() for word in ("--set", f"{key}={value}")),
        *("--engine", "ray", "--threads", 1, "--out", folder),
        in_own_group=True,
    )
    checkpoints = folder / "patient-seed0" / "checkpoints"
    deadline = time.monotonic() + 90
    while len(list(checkpoints.glob("round-*.safetensors"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, psutil.Process(process.pid).children(recursive=True)


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Wait until none of these processes runs."""
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


def is_agent(process: psutil.Process) -> bool:
    """Whether this is one of Ray's processes that only report about a node."""
    return process.is_running() and process.name().endswith("Agent")


@pytest.mark.long
def test_ctrl_c_of_a_terminal_saves_and_leaves_no_process(patience):
    folder = patience.folder / "there"
    process, others = start_until_waiting(patience, folder)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to Ray's processes too
    assert "Finishing this round" in process.stderr.readline()
    patience.open_gate_later()
    stopped = end(process)
    assert stopped.code == 130, stopped.err
    assert "Stopped by Ctrl-C; all runs are saved." in stopped.err
    assert f"coterie resume {folder}" in stopped.err
    assert "Traceback" not in stopped.err
    wait_until_gone(others)
    here, there = patience.create("here", 0), Experiment.open(folder)
    patience.run(there, None)
    patience.run(here, None)
    assert results_of(there) == results_of(here)


@pytest.mark.long
def test_a_killed_command_is_resumed_on_a_cluster(patience, engine):
    folder = patience.folder / "there"
    process, others = start_until_waiting(patience, folder)
    process.kill()
    end(process)
    # Two agents of Ray, which do no work, take a minute to notice.
    wait_until_gone([each for each in others if not is_agent(each)])
    patience.open_gate()
    here, there = patience.create("here", 0), Experiment.open(folder)
    patience.run(there, engine)
    patience.run(here, None)
    assert results_of(there) == results_of(here)
