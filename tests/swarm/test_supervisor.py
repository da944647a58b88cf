"""Processes that die, fail, finish or do not listen, and who looks after them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest

from coterie.errors import StorageError, TrainingError, WorkerDied
from coterie.peer.peer_run import STATUS, PeerStatus
from coterie.swarm import supervisor as supervisors
from coterie.swarm.peer_processes import LOG
from coterie.swarm.supervisor import MOST_RESTARTS, Supervisor

PATIENCE_SECONDS = 60.0
"""For what is bound to happen, on a machine of any speed."""
READY = "ready"


def say(folder: Path, state: str, number: int) -> None:
    status = PeerStatus(folder.name, "id", os.getpid(), state=state, round=number)
    (folder / STATUS).write_text(json.dumps(asdict(status)))


def finish(folder: Path) -> None:
    say(folder, "finished", 3)


def die(folder: Path) -> None:
    say(folder, "running", 2)
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(folder: Path) -> None:
    if (folder / READY).exists():
        finish(folder)
    else:
        (folder / READY).touch()
        die(folder)


def break_down(folder: Path) -> None:
    os._exit(1)


def fail(folder: Path) -> None:
    say(folder, "running", 2)
    (folder / LOG).write_text("Error: an old one\nhello\nError: It diverged.\nUse another rate.\n")
    os._exit(TrainingError.exit_code)


def fail_at_once(folder: Path) -> None:
    (folder / LOG).write_text("Error: The disk is full.\n")
    os._exit(StorageError.exit_code)


def obey(folder: Path) -> None:
    def stop(number: int, frame: object) -> None:
        say(folder, "stopped", 1)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    (folder / READY).touch()
    time.sleep(PATIENCE_SECONDS)


def ignore(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (folder / READY).touch()
    time.sleep(PATIENCE_SECONDS)


def be_stopped(folder: Path) -> None:
    say(folder, "stopped", 1)


def start(lives: dict[Path, Callable[[Path], None]], folder: Path) -> BaseProcess:
    process = multiprocessing.get_context("forkserver").Process(
        target=lives[folder], args=(folder,), daemon=True
    )
    process.start()
    return process


@pytest.fixture
def swarm_of(tmp_path) -> Callable[..., tuple[Supervisor, list[str]]]:
    """Return a maker of swarms whose peers live as they are told, and what is told of them."""

    def make(*lives: Callable[[Path], None]) -> tuple[Supervisor, list[str]]:
        folders = [tmp_path / f"peer-{number:03d}" for number in range(len(lives))]
        for folder in folders:
            folder.mkdir()
        told: list[str] = []
        by_folder = dict(zip(folders, lives, strict=True))
        return Supervisor(folders, told.append, lambda folder: start(by_folder, folder)), told

    return make


def look_after_until(swarm: Supervisor, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until
        swarm.supervise(0.05)


def see_all_end(swarm: Supervisor) -> None:
    look_after_until(swarm, lambda: not swarm.running)


def test_who_finishes_has_done_well(swarm_of):
    swarm, told = swarm_of(finish, finish)
    with swarm:
        see_all_end(swarm)
    assert all(peer.has_finished for peer in swarm.peers)
    assert swarm.errors == told == []


def test_who_dies_is_started_again(swarm_of):
    swarm, told = swarm_of(die_once, finish)
    with swarm:
        see_all_end(swarm)
    assert all(peer.has_finished for peer in swarm.peers)
    assert swarm.num_restarts == 1
    (note,) = told
    assert note == ("peer-000 was killed (SIGKILL) after round 2 and is restarted (1 of 3 times).")


def test_who_dies_again_and_again_is_given_up(swarm_of):
    swarm, told = swarm_of(die, obey)
    with swarm:
        look_after_until(swarm, lambda: bool(swarm.errors))
        assert [peer.number for peer in swarm.running] == [1]
        assert not swarm.has_failed_at_once
    assert len(told) == MOST_RESTARTS + 1
    assert told[-1].endswith("The others continue without it.")
    (error,) = swarm.errors
    assert isinstance(error, WorkerDied)
    assert "after 3 restarts already" in str(error)


def test_a_defect_is_no_error_for_people_and_counts_as_death(swarm_of):
    swarm, told = swarm_of(break_down)
    with swarm:
        see_all_end(swarm)
    assert swarm.num_restarts == MOST_RESTARTS
    assert "crashed in its first round" in told[0]
    assert LOG in str(swarm.errors[0])


def test_an_error_for_people_is_kept_whole_and_not_tried_again(swarm_of):
    swarm, told = swarm_of(fail, obey)
    with swarm:
        look_after_until(swarm, lambda: bool(swarm.errors))
    (error,) = swarm.errors
    assert type(error) is TrainingError
    assert str(error) == "peer-000: It diverged.\nUse another rate."
    assert swarm.num_restarts == 0
    assert told == [f"{error} The others continue without it."]


def test_who_never_got_to_a_round_lets_all_end(swarm_of):
    swarm, told = swarm_of(fail_at_once, obey)
    with swarm:
        look_after_until(swarm, lambda: bool(swarm.errors))
        assert swarm.has_failed_at_once
    assert type(swarm.errors[0]) is StorageError
    assert told[0].endswith("The others are stopped, too.")


def test_a_peer_that_somebody_else_stopped_is_missing(swarm_of):
    swarm, _ = swarm_of(be_stopped)
    with swarm:
        see_all_end(swarm)
    assert "peer-000 was stopped by another process" in str(swarm.errors[0])


def test_all_are_asked_to_stop_and_nobody_is_started_again(swarm_of):
    swarm, told = swarm_of(obey, obey)
    with swarm:
        look_after_until(swarm, lambda: all((m.folder / READY).exists() for m in swarm.peers))
        swarm.stop()
        swarm.stop()
        see_all_end(swarm)
    assert [peer.status.state for peer in swarm.peers] == ["stopped", "stopped"]
    assert swarm.errors == told == []


def test_who_does_not_listen_is_ended(swarm_of, monkeypatch):
    monkeypatch.setattr(supervisors, "STOP_SECONDS", 0.2)
    swarm, _ = swarm_of(ignore)
    with swarm:
        look_after_until(swarm, (swarm.peers[0].folder / READY).exists)
        swarm.stop()
        see_all_end(swarm)


def test_nobody_is_left_when_the_context_ends(swarm_of):
    swarm, _ = swarm_of(obey, ignore)
    with swarm:
        processes = [peer.process.pid for peer in swarm.peers]
        assert all(psutil.pid_exists(pid) for pid in processes)
    assert not any(psutil.pid_exists(pid) for pid in processes)
