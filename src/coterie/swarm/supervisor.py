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
from coterie.peer.peer_run import Status, read_status
from coterie.swarm import peer_processes

MOST_RESTARTS = 3
"""How often one peer that died is started again."""
STOP_SECONDS = 20.0
"""How long peers may take to save and say goodbye; a peer itself gives up earlier."""
ERRORS = {kind.exit_code: kind for kind in CoterieError.__subclasses__()}
"""What a peer's exit code means."""
Start = Callable[[Path], BaseProcess]


@dataclass
class Member:
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
    def is_going(self) -> bool:
        """Whether more is to come of it."""
        return self.process is not None

    @property
    def status(self) -> Status | None:
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
        self.members = [Member(number, folder) for number, folder in enumerate(folders)]
        self._tell = tell
        self._start = start
        self._deadline: float | None = None

    def __enter__(self) -> Supervisor:
        for member in self.members:
            member.process = self._start(member.folder)
        return self

    def __exit__(self, *_: object) -> None:
        left = [member.process for member in self.members if member.process is not None]
        for process in left:
            process.kill()
        for process in left:
            process.join()

    @property
    def going(self) -> list[Member]:
        """Those of whom more is to come."""
        return [member for member in self.members if member.is_going]

    @property
    def errors(self) -> list[CoterieError]:
        """Why peers have ended for good before their last round."""
        return [member.error for member in self.members if member.error is not None]

    @property
    def has_failed_at_once(self) -> bool:
        """Whether somebody never got to its first round: then nothing useful can come of it."""
        failed = [member.status for member in self.members if member.error is not None]
        return any(status is None or status.round < 0 for status in failed)

    @property
    def num_restarts(self) -> int:
        """How often peers were started again, in all."""
        return sum(member.num_restarts for member in self.members)

    def stop(self) -> None:
        """Ask everybody to save and to say goodbye; may be called again and again."""
        if self._deadline is not None:
            return
        self._deadline = time.monotonic() + STOP_SECONDS
        for member in self.members:
            if member.process is not None:
                member.process.terminate()

    def look_after(self, seconds: float) -> None:
        """Wait at most so long for somebody to end, and do what is to be done then."""
        wait([member.process.sentinel for member in self.members if member.process], seconds)
        for member in self.members:
            if member.process is not None and member.process.exitcode is not None:
                self._take_leave(member, member.process.exitcode)
        if self._deadline is not None and time.monotonic() > self._deadline:
            for member in self.going:
                if member.process is not None:
                    member.process.kill()

    def _take_leave(self, member: Member, code: int) -> None:
        member.process = None
        if self._deadline is not None or member.has_finished:
            return
        if code in ERRORS:
            said = peer_processes.last_words(member.folder)
            member.error = ERRORS[code](f"{member.name}: {said}")
        elif code == 0:
            member.error = WorkerDied(f"{member.name} was stopped by somebody else.")
        elif member.num_restarts < MOST_RESTARTS:
            self._restart(member, code)
        else:
            member.error = WorkerDied(
                f"{member.name} {_what_happened(code)}, after {MOST_RESTARTS} restarts already. "
                f"What it said is in {member.folder / peer_processes.LOG}."
            )
        if member.error is not None and self.going:
            others = "are stopped, too" if self.has_failed_at_once else "go on without it"
            self._tell(f"{member.error} The others {others}.")

    def _restart(self, member: Member, code: int) -> None:
        member.num_restarts += 1
        status = member.status
        when = "in its first round" if status is None else f"after round {status.round}"
        self._tell(
            f"{member.name} {_what_happened(code)} {when} and is started again "
            f"({member.num_restarts} of {MOST_RESTARTS} times)."
        )
        member.process = self._start(member.folder)


def _what_happened(code: int) -> str:
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else "broke down"
