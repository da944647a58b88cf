"""kill -9 at any moment, then resume: the same files, byte for byte, as without the kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from coterie.experiments.experiment import Experiment
from coterie.experiments.presets import find_preset

TABLES = ("metrics.parquet", "exchanges.parquet", "neighbours.parquet")
SMALL = {
    "peers.count": 8,
    "rounds": 12,
    "checkpoint_every": 2,
    "test_every": 3,
    "strategy.fetches": 2,
    "drift": {"kind": "random", "every": 5},
    "network.loss_probability": 0.1,
}
NUM_KILL_POINTS = 12


def create(folder: Path) -> Experiment:
    return Experiment.create(folder, find_preset("digits").runs(["random"], [3], SMALL))


def start_child(folder: Path) -> int:
    """Run the experiment in a forked child, which has everything imported already."""
    child = os.fork()
    if child == 0:
        # Other tests may have started torch's threads, which a forked child does not have.
        torch.set_num_threads(1)
        try:
            Experiment.open(folder).run(threads=2, tell=lambda message: None)
            os._exit(0)
        finally:
            os._exit(1)
    return child


def result_bytes(folder: Path) -> dict[str, bytes]:
    run = folder / "random-seed3"
    return {name: (run / name).read_bytes() for name in (*TABLES, "models.safetensors")}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Return the files of a run nobody disturbed, and how long it took."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "out"
    create(folder)
    begun = time.monotonic()
    _, status = os.waitpid(start_child(folder), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return result_bytes(folder), time.monotonic() - begun


@pytest.mark.parametrize("point", range(NUM_KILL_POINTS))
def test_killed_once(uninterrupted, tmp_path, point):
    expected, seconds = uninterrupted
    folder = tmp_path / "out"
    create(folder)
    child = start_child(folder)
    time.sleep(seconds * (point + 0.5) / NUM_KILL_POINTS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    _, status = os.waitpid(start_child(folder), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert result_bytes(folder) == expected


def checkpoints(folder: Path) -> set[str]:
    return {path.name for path in (folder / "random-seed3" / "checkpoints").glob("round-*")}


def test_killed_again_and_again(uninterrupted, tmp_path):
    """However often it is killed, a run gets on, as long as it reaches a checkpoint in between."""
    expected, _ = uninterrupted
    folder = tmp_path / "out"
    create(folder)
    kills, finished, status = 0, 0, -1
    while not finished:
        before = checkpoints(folder)
        child = start_child(folder)
        while not finished and not checkpoints(folder) - before:
            time.sleep(0.001)
            finished, status = os.waitpid(child, os.WNOHANG)
        if not finished:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
    assert kills >= 1
    assert os.waitstatus_to_exitcode(status) == 0
    assert result_bytes(folder) == expected


def test_killed_on_the_command_line(uninterrupted, tmp_path):
    """The same through the commands people type; no worker process is left behind."""
    folder = tmp_path / "out"
    create(folder)
    command = [sys.executable, "-m", "coterie", "resume", str(folder), "--threads", "2"]
    process = subprocess.Popen(command, start_new_session=True)
    checkpoints = folder / "random-seed3" / "checkpoints"
    while not list(checkpoints.glob("round-*.safetensors")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while _group_is_alive(process.pid):
        assert time.monotonic() < deadline, "worker processes survived their parent"
        time.sleep(0.05)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "random" in done.stdout
    assert result_bytes(folder) == uninterrupted[0]


def test_killed_while_the_tables_are_joined(uninterrupted, tmp_path):
    """Half-written files, and tables that are joined already, are no obstacle."""
    folder = tmp_path / "out"
    create(folder)
    os.waitpid(start_child(folder), 0)
    run = folder / "random-seed3"
    again = tmp_path / "again"
    create(again)
    child = start_child(again)
    while not (again / "random-seed3" / "metrics.parquet").exists():
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (again / "random-seed3" / "neighbours").mkdir(exist_ok=True)
    (again / "random-seed3" / "neighbours" / "123.partial").write_bytes(b"half")
    (again / "random-seed3" / "summary.json").unlink(missing_ok=True)
    _, status = os.waitpid(start_child(again), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert result_bytes(again) == result_bytes(folder)
    assert sorted(path.name for path in (again / "random-seed3").iterdir()) == sorted(
        path.name for path in run.iterdir()
    )


def test_a_damaged_checkpoint_is_passed_over(uninterrupted, tmp_path):
    """The newest checkpoint has a flipped bit: the one before is used, with a message."""
    folder = tmp_path / "out"
    create(folder)
    child = start_child(folder)
    checkpoints = folder / "random-seed3" / "checkpoints"
    while len(list(checkpoints.glob("round-*.safetensors"))) < 2:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    newest = max(checkpoints.glob("round-*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    messages: list[str] = []
    Experiment.open(folder).run(threads=1, tell=messages.append)
    assert any("damaged" in message and newest.name in message for message in messages)
    assert result_bytes(folder) == uninterrupted[0]


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
