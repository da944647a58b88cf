"""The commands with a Ray of their own on this computer: stopped, killed and continued."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from commands import RANDOM, coterie, end, results, start

SHORT = ("--peers", 8, "--rounds", 60, *RANDOM, "--set", "checkpoint_every=2")
NEW_RAY = ("--engine", "ray", "--threads", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """Return the results of the local engine."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert coterie("run", "digits", *SHORT, "--threads", 1, "--out", folder).code == 0
    return results(folder)


def start_until_saved(folder: Path):
    """Start a command in its own process group and wait for its second checkpoint."""
    process = start("run", "digits", *SHORT, *NEW_RAY, "--out", folder, in_own_group=True)
    checkpoints = folder / "random-seed0" / "checkpoints"
    deadline = time.monotonic() + 90
    while len(list(checkpoints.glob("round-*.safetensors"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, psutil.Process(process.pid).children(recursive=True)


def is_agent(process: psutil.Process) -> bool:
    """Whether this is one of Ray's processes that only report about a node."""
    return process.is_running() and process.name().endswith("Agent")


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Wait until none of these processes runs."""
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


def test_ctrl_c_of_a_terminal_saves_and_leaves_no_process(undisturbed, tmp_path):
    folder = tmp_path / "out"
    process, others = start_until_saved(folder)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to Ray's processes too
    stopped = end(process)
    assert stopped.code == 130, stopped.err
    assert "Stopped by Ctrl-C; all runs are saved." in stopped.err
    assert f"coterie resume {folder}" in stopped.err
    assert "Traceback" not in stopped.err
    wait_until_gone(others)
    assert coterie("resume", folder, "--threads", 1).code == 0
    assert results(folder) == undisturbed


def test_a_killed_command_is_resumed_on_a_cluster(undisturbed, tmp_path, nodes):
    folder = tmp_path / "out"
    process, others = start_until_saved(folder)
    process.kill()
    end(process)
    # Two agents of Ray, which do no work, take a minute to notice.
    wait_until_gone([each for each in others if not is_agent(each)])
    answer = coterie("resume", folder, "--engine", "ray", "--address", nodes.address)
    assert answer.code == 0, answer.err
    assert results(folder) == undisturbed
