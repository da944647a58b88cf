"""`coterie swarm` as a user meets it: real processes, killed, failing, stopped and continued."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commands import coterie, end, refused, start

import coterie as package
from coterie.experiments.experiment import Experiment
from coterie.peer.peer_run import PeerStatus, read_status
from coterie.runtime.run_tables import SCHEMAS
from coterie.swarm.peer_folders import KEPT, peer_folders

PATIENCE_SECONDS = 90.0
"""For what is bound to happen, on a machine of any speed."""
NUM_PEERS = 3
SMALL = (
    *("--peers", NUM_PEERS, "--strategy", "random", "--set", "strategy.fetches=2"),
    *("--set", "peers.train_size=8", "--set", "training.epochs=1"),
)
ENDLESS = 100_000


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait for what is bound to happen."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"it did not happen: {what}"
        time.sleep(0.02)


def status_of(out: Path, number: int) -> PeerStatus | None:
    """Return what a peer last said."""
    return read_status(peer_folders(out / "random-seed0", NUM_PEERS)[number])


def reaches(out: Path, number: int, round_number: int) -> Callable[[], bool]:
    """Return whether a peer has ended a round."""

    def has_reached() -> bool:
        status = status_of(out, number)
        return status is not None and status.round >= round_number

    return has_reached


def set_rounds(out: Path, rounds: int) -> None:
    """Let a run that was stopped end soon."""
    run = out / "random-seed0"
    for path in (run / "config.yaml", *(run / "peers").glob("*/peer.yaml")):
        path.write_text(path.read_text().replace(f"rounds: {ENDLESS}", f"rounds: {rounds}"))


def test_a_peer_that_is_killed_is_started_again_and_the_run_ends_well(tmp_path):
    out = tmp_path / "out"
    process = start("swarm", *SMALL, "--rounds", ENDLESS, "--out", out)
    try:
        eventually(reaches(out, 1, 2), "round 2")
        killed = status_of(out, 1)
        os.kill(killed.process, signal.SIGKILL)
        eventually(lambda: status_of(out, 1).process != killed.process, "a restart")
        eventually(reaches(out, 1, killed.round + 2), "further rounds")
        eventually(lambda: has_gathered(out, 2), "live records")
        assert not package.load_run(out / "random-seed0").is_finished
        process.send_signal(signal.SIGINT)
        answer = end(process)
    finally:
        process.kill()
    assert answer.code == 130
    assert "peer-001 was killed (SIGKILL) after round" in answer.err
    assert "is restarted (1 of 3 times)" in answer.err
    assert "Stopped by Ctrl-C after round" in answer.err
    assert f"coterie resume {out}" in answer.err
    assert all(not psutil.pid_exists(status_of(out, n).process) for n in range(NUM_PEERS))
    assert [status_of(out, n).state for n in range(NUM_PEERS)] == ["stopped"] * NUM_PEERS
    resumed_to_its_end(out)


def resumed_to_its_end(out: Path) -> None:
    last = max(status_of(out, number).round for number in range(NUM_PEERS)) + 2
    set_rounds(out, last)
    answer = coterie("resume", out)
    assert answer.code == 0, answer
    run = package.load_run(out / "random-seed0")
    assert run.is_finished
    assert run.metrics["round"].to_pylist() == [n for n in range(last + 1) for _ in range(3)]
    assert set(run.metrics["status"].to_pylist()) == {"active"}
    assert run.models.shape[0] == NUM_PEERS


def has_gathered(out: Path, round_number: int) -> bool:
    """Whether a look from outside finds a round already."""
    try:
        return package.load_run(out / "random-seed0").last_round >= round_number
    except package.errors.StorageError:
        return False


def test_a_swarm_leaves_what_a_simulation_leaves_and_nothing_secret(tmp_path):
    out = tmp_path / "out"
    answer = coterie("swarm", *SMALL, "--rounds", 2, "--own-pace", "--out", out)
    assert answer.code == 0, answer
    assert "random" in answer.out
    assert str(out) in answer.out
    run = package.load_run(out / "random-seed0")
    assert run.is_finished
    assert run.config.runtime == "network"
    assert run.config.swarm.own_pace
    assert run.summary.models_per_peer == 8  # two fetched and two sent, in each of two rounds
    files = [path for path in (out / "random-seed0" / "peers").rglob("*") if path.is_file()]
    assert {path.name for path in files} <= set(KEPT)
    assert not any((out / "random-seed0" / name).is_dir() for name in SCHEMAS)
    for command in ("compare", "analyse"):
        assert coterie(command, out).code == 0
    page = tmp_path / "page.html"
    assert coterie("report", out, "--out", page).code == 0
    assert "real peers over a network, each at its own pace" in page.read_text()


def test_an_error_of_one_peer_is_the_error_of_the_swarm(tmp_path):
    out = tmp_path / "out"
    options = ("--set", "training.learning_rate=1e30", "--rounds", 2)
    answer = coterie("swarm", *SMALL, *options, "--out", out)
    assert answer.code == 5
    assert answer.err.rpartition("Error: ")[2].startswith("peer-00")
    assert "Training diverged in round" in answer.err
    assert "resume" not in answer.err
    assert "Traceback" not in answer.err
    assert not Experiment.open(out).summaries


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--strategy", "oracle"), ("'oracle' needs the true clusters",)),
        (
            ("--strategy", "dac", "--peers", 4, "--set", "strategy.fetches=5"),
            ("strategy.fetches is 5", "4 peers"),
        ),
        (("--set", "strategy.tau=5"), ("The strategy kin has no option 'tau'",)),
        (("--network", "deadline=3"), ("There is no setting 'network.deadline'", "deadlines")),
        (("--set", "runtime=network"), ("--set", "coterie swarm")),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path, options, parts):
    out = tmp_path / "out"
    refused(coterie("swarm", *options, "--out", out), 2, *parts)
    assert not out.exists()
