"""What goes wrong on a peer's own computer: its key used twice, a full disk, a wrong clock."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harmed_peers import TRAIN
from peer_processes import PeerProcess, copy_of, eventually, lay_out_swarm

from coterie.peer.peer_run import RUN
from coterie.swarm.peer_folders import free_ports

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) { const char *set = getenv("CLOCK_OFFSET"); return set ? atol(set) : 0; }

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, now);
    if (!code && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return code;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int code = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return code;
}

time_t time(time_t *where) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (where) *where = exact.tv_sec;
    return exact.tv_sec;
}
"""
RUN_PEER = "import sys; sys.argv[1:1] = ['peer', 'run']; from coterie.cli.main import main; main()"


def checkpoints(peer: PeerProcess) -> list[Path]:
    return sorted((peer.folder / RUN / "checkpoints").glob("round-*"))


def test_two_processes_in_one_folder(tmp_path):
    with lay_out_swarm(tmp_path, 2) as swarm:
        swarm.start()
        first, _ = swarm.peers
        first.wait_round(0)
        second = PeerProcess(first.folder)
        swarm.peers.append(second)
        second.start()
        assert second.ended() == 4
        assert f"Another process is using {first.folder}." in first.log
        first.wait_round(first.round + 1)


def test_two_processes_with_the_same_key(tmp_path):
    """A copied folder at another port: whoever came later stops, and all stay with the first."""
    with lay_out_swarm(tmp_path, 3) as swarm:
        swarm.start()
        original, *others = swarm.peers
        for peer in swarm.peers:
            eventually(lambda peer=peer: peer.status.num_known == 2, "everybody is met")
        copy = copy_of(original, tmp_path / "copy")
        (copy.folder / "output.log").unlink()
        copy.change(listen=f"127.0.0.1:{free_ports(1)[0]}", known=[others[0].address])
        swarm.peers.append(copy)
        copy.start()
        assert copy.ended() == 2
        assert f"Another process at {original.address} runs with the key of 'peer-0'" in copy.log
        since = [peer.round for peer in others]
        for peer, before in zip(others, since, strict=True):
            eventually(
                lambda peer=peer, before=before: peer.has_fetched(original, before + 1),
                "the original is still asked",
            )
        assert original.is_alive


@contextmanager
def small_disk(peer: PeerProcess) -> Iterator[Callable[[], None]]:
    """Yield what fills the disk that the peer's checkpoints are on: a file system of 4 MB."""
    place = peer.folder / RUN / "checkpoints"
    place.mkdir(parents=True)
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)],
            check=False,
            capture_output=True,
        ).returncode
    )
    if not mounted:
        pytest.skip("no file system can be mounted here, which only root may")
    try:
        yield lambda: _fill(place / "filler")
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        size = 2**20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def require_stopped_by_the_disk(peer: PeerProcess) -> None:
    """Check that a peer ended with an error for people, and that what was saved is intact."""
    assert peer.ended() == 4
    assert f"Error: Cannot write to {peer.folder / RUN}" in peer.log
    assert "Free some space" in peer.log
    assert "that were saved before are intact" in peer.log
    assert "Traceback" not in peer.log
    assert not list(peer.folder.rglob("*.partial"))


def test_the_disk_is_full_at_a_checkpoint(tmp_path):
    with lay_out_swarm(tmp_path, 2) as swarm, small_disk(swarm.peers[0]) as fill:
        swarm.start()
        peer, other = swarm.peers
        peer.wait_round(1)
        peer.hold(TRAIN)
        peer.wait_held()
        saved = checkpoints(peer)
        fill()
        peer.release()
        require_stopped_by_the_disk(peer)
        assert checkpoints(peer) == saved
        other.wait_round(other.round + 2)
        (peer.folder / RUN / "checkpoints" / "filler").unlink()
        before = int(saved[-1].name.split("-")[1]) - 1
        peer.start()
        peer.wait_round(before + 2)
        assert f"Continuing after round {before}." in peer.log
        assert peer.end() == 0


def test_no_file_may_grow(tmp_path):
    """As on a disk with quotas, which anybody can try out."""
    with lay_out_swarm(tmp_path, 2) as swarm:
        swarm.start()
        peer, _ = swarm.peers
        peer.wait_round(1)
        peer.hold(TRAIN)
        peer.wait_held()
        saved = checkpoints(peer)
        smallest = min(path.stat().st_size for path in saved)
        resource.prlimit(peer.pid, resource.RLIMIT_FSIZE, (smallest // 2, smallest // 2))
        peer.release()
        require_stopped_by_the_disk(peer)
        assert checkpoints(peer) == saved
        before = int(saved[-1].name.split("-")[1]) - 1
        peer.start()
        peer.wait_round(before + 1)
        assert f"Continuing after round {before}." in peer.log


@pytest.fixture(scope="module")
def clock(tmp_path_factory) -> Path:
    """Return a library that sets the clock of a process, for everything in it."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler to set clocks with")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(CLOCK)
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "clock.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


def test_clocks_that_are_off_by_ten_minutes(tmp_path, clock):
    """One is ahead and one is behind, for TLS as for Python, and one is set right later."""
    with lay_out_swarm(tmp_path, 3) as swarm:
        right, ahead, behind = swarm.peers
        right.start()
        started = []
        try:
            for peer, seconds in ((ahead, 600), (behind, -600)):
                environment = os.environ | {"LD_PRELOAD": str(clock), "CLOCK_OFFSET": str(seconds)}
                command = [sys.executable, "-c", RUN_PEER, str(peer.folder)]
                with (peer.folder / "output.log").open("w") as log:
                    started.append(
                        subprocess.Popen(command, env=environment, stdout=log, stderr=log)
                    )
            for peer in (right, ahead, behind):
                others = [other for other in swarm.peers if other is not peer]
                eventually(
                    lambda peer=peer, others=others: (
                        peer.round > 0 and all(peer.has_fetched(other) for other in others)
                    ),
                    "everybody learns from everybody",
                )
            assert ahead.status.updated - right.status.updated > 500
            assert right.status.updated - behind.status.updated > 500
            started[0].send_signal(signal.SIGTERM)
            assert started[0].wait(60) == 0
            ahead.start()  # now with the right clock, so that it seems to be an earlier start
            since = right.round
            eventually(lambda: right.has_fetched(ahead, since + 1), "it is found again")
        finally:
            for process in started:
                process.kill()
                process.wait()
