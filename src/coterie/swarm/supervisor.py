"""Supervises the processes of a swarm: starts peers, restarts those that die, and ends all."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from coterie.errors import CoterieError, WorkerDied
from coterie.learning.trainer_choice import Tell
from coterie.peer.peer_run import PeerStatus, read_status
from coterie.swarm import peer_processes

MOST_RESTARTS = 3
"""Largest number of restarts of one peer."""
STOP_SECONDS = 20.0
"""How long peers may take to save and leave; a peer itself gives up earlier."""
ERRORS = {kind.exit_code: kind for kind in CoterieError.__subclasses__()}
"""The error for a peer's exit code."""
Start = Callable[[Path], BaseProcess]


@dataclass
class SwarmPeer:
    """One peer of a swarm and its process."""

    number: int
    folder: Path
    process: BaseProcess | None = field(default=None, repr=False)
    num_restarts: int = 0
    error: CoterieError | None = None
    """The reason why it failed for good."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def is_running(self) -> bool:
        """Whether it has a process."""
        return self.process is not None

    @property
    def status(self) -> PeerStatus | None:
        """Its last status."""
        return read_status(self.folder)

    @property
    def has_finished(self) -> bool:
        """Whether it has finished all rounds."""
        status = self.status
        return status is not None and status.state == "finished"


class Supervisor:
    """The peers of a swarm as processes; the end of the context kills the remaining ones."""

    def __init__(
        self, folders: Sequence[Path], tell: Tell, start: Start = peer_processes.start
    ) -> None:
        self.peers = [SwarmPeer(number, folder) for number, folder in enumerate(folders)]
        self._tell = tell
        self._start = start
        self._deadline: float | None = None

    def __enter__(self) -> Supervisor:
        for peer in self.peers:
            peer.process = self._start(peer.folder)
        return self

    def __exit__(self, *_: object) -> None:
        left = [peer.process for peer in self.peers if peer.process is not None]
        for process in left:
            process.kill()
        for process in left:
            process.join()

    @property
    def running(self) -> list[SwarmPeer]:
        """The running peers."""
        return [peer for peer in self.peers if peer.is_running]

    @property
    def errors(self) -> list[CoterieError]:
        """The errors of peers that failed for good."""
        return [peer.error for peer in self.peers if peer.error is not None]

    @property
    def has_failed_at_once(self) -> bool:
        """Whether a peer failed before its first round; then the run cannot succeed."""
        failed = [peer.status for peer in self.peers if peer.error is not None]
        return any(status is None or status.round < 0 for status in failed)

    @property
    def num_restarts(self) -> int:
        """Number of restarts of all peers."""
        return sum(peer.num_restarts for peer in self.peers)

    def stop(self) -> None:
        """Ask all peers to save and leave; further calls do nothing."""
        if self._deadline is not None:
            return
        self._deadline = time.monotonic() + STOP_SECONDS
        for peer in self.peers:
            if peer.process is not None:
                peer.process.terminate()

    def supervise(self, seconds: float) -> None:
        """Wait at most so long for a process to end; restart its peer or record its error."""
        wait([peer.process.sentinel for peer in self.peers if peer.process], seconds)
        for peer in self.peers:
            if peer.process is not None and peer.process.exitcode is not None:
                self._handle_end(peer, peer.process.exitcode)
        if self._deadline is not None and time.monotonic() > self._deadline:
            for peer in self.running:
                if peer.process is not None:
                    peer.process.kill()

    def _handle_end(self, peer: SwarmPeer, code: int) -> None:
        peer.process = None
        if self._deadline is not None or peer.has_finished:
            return
        if code in ERRORS:
            message = peer_processes.last_error(peer.folder)
            peer.error = ERRORS[code](f"{peer.name}: {message}")
        elif code == 0:
            peer.error = WorkerDied(f"{peer.name} was stopped by another process.")
        elif peer.num_restarts < MOST_RESTARTS:
            self._restart(peer, code)
        else:
            peer.error = WorkerDied(
                f"{peer.name} {_describe_end(code)}, after {MOST_RESTARTS} restarts already. "
                f"Its output is in {peer.folder / peer_processes.LOG}."
            )
        if peer.error is not None and self.running:
            others = "are stopped, too" if self.has_failed_at_once else "continue without it"
            self._tell(f"{peer.error} The others {others}.")

    def _restart(self, peer: SwarmPeer, code: int) -> None:
        peer.num_restarts += 1
        status = peer.status
        when = "in its first round" if status is None else f"after round {status.round}"
        self._tell(
            f"{peer.name} {_describe_end(code)} {when} and is restarted "
            f"({peer.num_restarts} of {MOST_RESTARTS} times)."
        )
        peer.process = self._start(peer.folder)


def _describe_end(code: int) -> str:
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else "crashed"
