"""`coterie watch` and `run --watch` as people use them: real processes, sockets and signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from commands import coterie, end, refused, results, start
from live_events import Viewer, address_of
from watching_runs import create

from coterie.runtime.run_tables import read_table

RUN = ("--strategy", "random", "--set", "strategy.fetches=2", "--peers", 8, "--threads", 1)


def stop_after(run, folder, num_rounds):
    """Stop a process where it is, once it has recorded some rounds."""
    deadline = time.monotonic() + 120
    while read_table(folder, "timings").num_rows < num_rounds:
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGSTOP)


def test_two_viewers_of_a_run_that_is_killed_and_resumed(tmp_path):
    """The watcher starts before there is a run, and outlives it."""
    folder = tmp_path / "out"
    watcher = start("watch", folder)
    try:
        address = address_of(watcher)
        assert f"{folder}: there is no such folder yet" in watcher.stderr.readline()
        first = Viewer(address)
        first.wait_for(
            lambda viewer: "no such folder" in viewer.texts[-1] if viewer.texts else False
        )
        create(folder, ["random"], [0], **{"rounds": 250, "strategy.fetches": 2})
        run = start("resume", folder, "--threads", 1)
        # However slow viewers are on a busy machine, the run must not end before they have seen it.
        stop_after(run, folder / "random-seed0", num_rounds=11)
        first.wait_for(lambda viewer: viewer.parts["progress"]["done"] > 0)
        second = Viewer(address)
        second.wait_for(lambda viewer: bool(viewer.parts) and viewer.parts["progress"]["done"] > 10)
        run.kill()
        run.communicate()
        assert not (folder / "random-seed0" / "summary.json").exists()
        assert end(start("resume", folder, "--threads", 1)).code == 0
        for viewer in (first, second):
            viewer.wait_for(lambda viewer: viewer.texts[-1].endswith("finished"))
            assert viewer.parts["progress"]["done"] == 251
            assert viewer.parts["progress"]["problems"] == []
            assert viewer.parts["0/curves"]["curves"]["validation"][0][0]["round"][-1] == 250
        assert first.parts == second.parts
        assert first.num_sent["0/settings"] < first.num_sent["progress"]
    finally:
        watcher.send_signal(signal.SIGINT)
        answer = end(watcher)
    assert answer.code == 0
    assert "Traceback" not in answer.err
    for viewer in (first, second):
        viewer.join(60)
        assert viewer.names[-1] == "end"


def test_a_run_that_shows_itself(tmp_path):
    """The same results, bit for bit; viewers see the end; nothing is left behind."""
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    assert coterie("run", *RUN, "--rounds", 40, "--out", plain).code == 0
    process = start("run", *RUN, "--rounds", 40, "--watch", "--out", watched)
    address = address_of(process)
    viewer = Viewer(address)
    answer = end(process)
    assert answer.code == 0, answer.err
    viewer.join(60)
    assert viewer.names[-1] == "end"
    assert viewer.texts[-1] == "41 of 41 rounds (100%), finished"
    assert results(watched) == results(plain)
    with socket.socket() as probe:
        where = urlsplit(address)
        assert probe.connect_ex((where.hostname, where.port)) != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_watched_run_that_is_stopped_leaves_no_process(tmp_path, number):
    folder = tmp_path / "out"
    arguments = ("run", *RUN, "--rounds", 4000, "--watch", "--out", folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    viewer = Viewer(address_of(process))
    viewer.wait_for(lambda viewer: bool(viewer.parts) and viewer.parts["progress"]["done"] > 0)
    if number == signal.SIGINT:  # Ctrl-C reaches the whole group
        os.killpg(process.pid, number)
    else:
        process.kill()
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _is_alive(process.pid):
        assert time.monotonic() < deadline, "the watching process survived"
        time.sleep(0.05)
    assert (viewer.names[-1] == "end") == (number == signal.SIGINT)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_that_cannot_begin_is_refused_as_without(tmp_path):
    refused(
        coterie("run", "digitz", "--watch", "--out", tmp_path / "out"),
        2,
        "digitz",
    )


def test_a_folder_of_output_folders_is_watched_one_by_one(runs):
    refused(coterie("watch", runs.parent), 2, "one by one", str(runs))


def test_a_port_that_is_taken(runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(coterie("watch", runs, "--port", port), 2, f"port {port}", "--port")


def test_only_this_computer_is_served(runs):
    process = start("watch", runs)
    try:
        where = urlsplit(address_of(process))
        found = subprocess.run(
            ["cat", f"/proc/{process.pid}/net/tcp"], capture_output=True, text=True, check=True
        ).stdout
        listening = [
            line.split()[1] for line in found.splitlines() if f":{where.port:04X} " in line
        ]
        assert "0100007F:" + f"{where.port:04X}" in listening
        assert not any(place.startswith("00000000:") for place in listening)
    finally:
        process.send_signal(signal.SIGTERM)
        assert end(process).code == 0


def test_the_terminal_view_without_a_terminal(runs):
    answer = coterie("watch", runs, "--terminal")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("local-seed0: round 6 of 6, validation ")
    assert lines[-1].endswith("28 of 28 rounds in all, finished")
    assert "fetched from the own cluster" in lines[-1]
