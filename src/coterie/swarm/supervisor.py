"""Looks after the processes of a swarm: starts them, restarts those that die, and ends them all."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from coterie.errors import CoterieError, WorkerDied
from coterie.learning.choice import Tell
from coterie.peer.peer_run import PeerStatus, read_status
from coterie.swarm import peer_processes

MOST_RESTARTS = 3
"""How often one peer that died is started again."""
STOP_SECONDS = 20.0
"""How long peers may take to save and say goodbye; a peer itself gives up earlier."""
ERRORS = {kind.exit_code: kind for kind in CoterieError.__subclasses__()}
"""What a peer's exit code means."""
Start = Callable[[Path], BaseProcess]


@dataclass
class SwarmPeer:
    """One peer of the swarm."""

    number: int
    folder: Path
    process: BaseProcess | None = field(default=None, repr=False)
    num_restarts: int = 0
    error: CoterieError | None = None
    """Why it has ended before its last round, and was not started again."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.name

    @property
    def is_running(self) -> bool:
        """Whether more is to come of it."""
        return self.process is not None

    @property
    def status(self) -> PeerStatus | None:
        """What it last said about itself."""
        return read_status(self.folder)

    @property
    def has_finished(self) -> bool:
        """Whether it has done all its rounds."""
        status = self.status
        return status is not None and status.state == "finished"


class Supervisor:
    """The peers of a swarm as processes; when the context ends, none is left."""

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
        """Those of whom more is to come."""
        return [peer for peer in self.peers if peer.is_running]

    @property
    def errors(self) -> list[CoterieError]:
        """Why peers have ended for good before their last round."""
        return [peer.error for peer in self.peers if peer.error is not None]

    @property
    def has_failed_at_once(self) -> bool:
        """Whether somebody never got to its first round: then nothing useful can come of it."""
        failed = [peer.status for peer in self.peers if peer.error is not None]
        return any(status is None or status.round < 0 for status in failed)

    @property
    def num_restarts(self) -> int:
        """How often peers were started again, in all."""
        return sum(peer.num_restarts for peer in self.peers)

    def stop(self) -> None:
        """Ask everybody to save and to say goodbye; may be called again and again."""
        if self._deadline is not None:
            return
        self._deadline = time.monotonic() + STOP_SECONDS
        for peer in self.peers:
            if peer.process is not None:
                peer.process.terminate()

    def supervise(self, seconds: float) -> None:
        """Wait at most so long for somebody to end, and do what is to be done then."""
        wait([peer.process.sentinel for peer in self.peers if peer.process], seconds)
        for peer in self.peers:
            if peer.process is not None and peer.process.exitcode is not None:
                self._take_leave(peer, peer.process.exitcode)
        if self._deadline is not None and time.monotonic() > self._deadline:
            for peer in self.running:
                if peer.process is not None:
                    peer.process.kill()

    def _take_leave(self, peer: SwarmPeer, code: int) -> None:
        peer.process = None
        if self._deadline is not None or peer.has_finished:
            return
        if code in ERRORS:
            said = peer_processes.last_error(peer.folder)
            peer.error = ERRORS[code](f"{peer.name}: {said}")
        elif code == 0:
            peer.error = WorkerDied(f"{peer.name} was stopped by somebody else.")
        elif peer.num_restarts < MOST_RESTARTS:
            self._restart(peer, code)
        else:
            peer.error = WorkerDied(
                f"{peer.name} {_what_happened(code)}, after {MOST_RESTARTS} restarts already. "
                f"What it said is in {peer.folder / peer_processes.LOG}."
            )
        if peer.error is not None and self.running:
            others = "are stopped, too" if self.has_failed_at_once else "go on without it"
            self._tell(f"{peer.error} The others {others}.")

    def _restart(self, peer: SwarmPeer, code: int) -> None:
        peer.num_restarts += 1
        status = peer.status
        when = "in its first round" if status is None else f"after round {status.round}"
        self._tell(
            f"{peer.name} {_what_happened(code)} {when} and is started again "
            f"({peer.num_restarts} of {MOST_RESTARTS} times)."
        )
        peer.process = self._start(peer.folder)


def _what_happened(code: int) -> str:
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else "broke down"
