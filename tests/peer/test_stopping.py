"""A peer's process is asked to stop: at any moment it saves, says goodbye and leaves no mess."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peer.network_of_peers import eventually, raw_channel
from peer_processes import PeerProcess, lay_out_swarm
from peer_processes import eventually as soon

from coterie.peer.security.identity import load_identity
from coterie.peer.stop_request import PeerStopRequest
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.methods import AWAIT, GET_MANIFEST
from coterie.peer.wire.model import Phase
from coterie.processes.signals import SAME_REQUEST_SECONDS

ASKED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
COMMAND = "from coterie.cli.main import main; main()"
STOPPING = "Stopping. Press Ctrl-C again to quit immediately."
HELD_UP = """
import sys, time
from pathlib import Path


class HoldUp:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            Path("here").touch()
            while Path("here").exists():
                time.sleep(0.01)


sys.meta_path.insert(0, HoldUp())
from coterie.cli.main import main

main()
"""
SWARM = """
import signal
import sys
from pathlib import Path

from coterie.swarm import peer_processes

peer_processes.PRELOADED = "held_up"
told = []
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: told.append(number))
process = peer_processes.start(Path(sys.argv[-1]))
process.join()
assert sorted(told) == [signal.SIGHUP, signal.SIGINT], told
sys.exit(process.exitcode)
"""
HELD_UP_LOADING = """
import time
from pathlib import Path

Path("here").touch()
while Path("here").exists():
    time.sleep(0.01)
"""
SLOW_DATA = """
import time
from pathlib import Path


def load():
    Path("here").touch()
    time.sleep(600)
"""


@pytest.fixture
def pair(tmp_path) -> Iterator[tuple[PeerProcess, PeerProcess]]:
    with lay_out_swarm(tmp_path / "peers", 2) as swarm:
        one, other = swarm.peers
        for peer in swarm.peers:
            peer.change(begin_with=0)
        yield one, other


@contextmanager
def running(
    peer: PeerProcess, code: str = COMMAND, ignored: int | None = None, **how: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run a peer by the command line, as its user does, whose shell may ignore a signal."""
    # Inherited, because Python code between fork and exec may wait for a lock of another thread.
    before = signal.signal(ignored, signal.SIG_IGN) if ignored else None
    process = subprocess.Popen(
        [sys.executable, "-c", code, "peer", "run", str(peer.folder)],
        cwd=peer.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )
    if ignored:
        signal.signal(ignored, before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Return its exit code, and what it wrote to the terminal."""
    out, err = process.communicate(timeout=90)
    assert out == ""
    return process.returncode, err.splitlines()


@pytest.mark.parametrize("number", ASKED)
def test_nothing_but_messages_is_written_when_it_ends(pair, number):
    """Although others are waiting for its answers, and it is asked twice, as `timeout` does."""
    peer, other = pair

    async def scenario() -> None:
        with running(peer) as process:
            await eventually(lambda: peer.round >= 1)
            certificate = load_identity(peer.folder).certificate_pem
            asker = load_identity(other.folder)
            async with raw_channel(asker, peer.address, certificate) as channel:
                waiting = [
                    asyncio.ensure_future(channel.unary_unary(method.path)(request, timeout=300))
                    for method, request in far_off() * 3
                ]
                # One after them on the same connection: they are being answered by then.
                now = wire.AwaitRequest(round=0).SerializeToString()
                await channel.unary_unary(AWAIT.path)(now, timeout=60)
                process.send_signal(number)
                if number != signal.SIGINT:
                    process.send_signal(number)
                code, lines = await asyncio.to_thread(end_of, process)
                answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert {answer.code().name for answer in answers} == {"UNAVAILABLE"}
        assert code == (130 if number == signal.SIGINT else 0)
        *_, stopping, last = lines
        assert stopping == STOPPING
        assert last == (
            f"Stopped after round {peer.round}, which is saved. "
            f"Continue with: coterie peer run {peer.folder}"
        )
        assert len(lines) == 3, lines
        assert peer.status.state == "stopped"

    asyncio.run(scenario())


def far_off() -> list[tuple[object, bytes]]:
    """Return calls that are answered much later."""
    wait = {"wait_milliseconds": 300_000}
    return [
        (AWAIT, wire.AwaitRequest(round=10**6, phase=Phase.SENT, **wait).SerializeToString()),
        (GET_MANIFEST, wire.ManifestRequest(round=10**6, parts=[0], **wait).SerializeToString()),
    ]


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("coterie.peer.process", signal.SIGTERM),
        ("coterie.peer.process", signal.SIGINT),
        ("coterie.peer.discovery.address_book", signal.SIGHUP),
        ("data", signal.SIGTERM),
    ],
)
def test_it_may_be_asked_while_it_loads(pair, number, moment):
    """Libraries that are interrupted while they load abort: there it waits until they have."""
    peer, _ = pair
    code = HELD_UP.format(module=moment)
    if moment == "data":
        (peer.folder / "slow.py").write_text(SLOW_DATA)
        peer.change(data={"function": "slow:load"})
    here = peer.folder / "here"
    with running(peer, code) as process:
        soon(here.exists, "it comes to where it is held up")
        process.send_signal(number)
        if moment != "data":
            here.unlink()
        code, lines = end_of(process)
    assert code == (130 if number == signal.SIGINT else 0)
    assert lines == [
        f"Stopped before the first round. Continue with: coterie peer run {peer.folder}"
    ]


def test_what_its_parent_ignores_stays_ignored(pair):
    """As under nohup."""
    peer, _ = pair
    with running(peer, ignored=signal.SIGHUP) as process:
        soon(lambda: peer.round >= 0, "it runs")
        process.send_signal(signal.SIGHUP)
        since = peer.round
        soon(lambda: peer.round > since + 1, "it goes on")
        process.send_signal(signal.SIGTERM)
        assert end_of(process)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_in_a_swarm_only_the_process_that_started_it_ends_a_peer(pair, number):
    """A terminal tells all processes at once; a peer that was told twice would not save."""
    peer, _ = pair
    peer.start()
    peer.wait_round(0)
    peer.signal(number)
    since = peer.round
    peer.wait_round(since + 2)
    assert peer.end() == 0
    assert f"Stopped after round {peer.round}, which is saved." in peer.log


def test_a_swarm_survives_a_terminal_while_it_loads(pair):
    """What is told to all processes at once must not end the one that forks the peers."""
    peer, _ = pair
    here = peer.folder / "here"
    (peer.folder / "held_up.py").write_text(HELD_UP_LOADING)
    with running(peer, SWARM, start_new_session=True, env=on_path(peer.folder)) as process:
        soon(here.exists, "the process that forks the peers loads what they need")
        for number in (signal.SIGINT, signal.SIGHUP):
            os.killpg(process.pid, number)
        here.unlink()
        soon(lambda: peer.round >= 0, "the peer runs")
        os.kill(peer.status.process, signal.SIGTERM)
        assert end_of(process) == (0, [])


def on_path(folder: Path) -> dict[str, str]:
    """Return an environment in which modules of a folder are found as well."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def test_a_second_request_ends_it_at_once(pair):
    """Even if a training goes on and on."""
    peer, _ = pair
    peer.start()
    peer.wait_round(0)
    peer.hold("train")
    peer.wait_held()
    peer.signal(signal.SIGTERM)
    soon(lambda: STOPPING in peer.log, "it tells that it stops")
    time.sleep(SAME_REQUEST_SECONDS)  # until then it would belong to the first
    peer.signal(signal.SIGTERM)
    assert peer.ended() == 130


def test_a_request_that_came_before_anything_could_answer_is_answered():
    request = PeerStopRequest()
    done = []
    with pytest.raises(BaseException, match="Stopped before"), request.loading():
        request.receive(signal.SIGTERM, None)
    with request.answered_by(lambda: done.append(True)):
        assert done == [True]
