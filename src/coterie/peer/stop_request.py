"""Asks a peer to stop: Ctrl-C, SIGTERM and SIGHUP, from the first moment of its process on.

Nothing here takes time to load: what a peer needs takes seconds, in which it may be stopped too.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from coterie.errors import Interrupted
from coterie.processes.signals import StopRequest, handled_by

AT_FIRST = "Stopped before the first round."
Tell = Callable[[str], None]


class PeerStopRequest(StopRequest):
    """Whether the process of a peer was asked to stop, and what answers the request."""

    def __init__(self) -> None:
        super().__init__()
        self._act: Callable[[], None] | None = None
        self._is_loading = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Put off requests: libraries that are interrupted while they load abort the process."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False
        if self.number is not None:
            raise Interrupted(AT_FIRST)

    @contextmanager
    def answered_by(self, act: Callable[[], None]) -> Iterator[None]:
        """Call a function on a request, also on one that has been made before."""
        self._act = act
        try:
            if self.number is not None:
                act()
            yield
        finally:
            self._act = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Answer a signal; where nothing answers it yet, there is nothing to be ended in order."""
        if self.number is not None:
            if self.is_urged_by(number):
                os._exit(Interrupted.exit_code)
            return
        self.make(number)
        if self._act is not None:
            self._act()
        elif not self._is_loading:
            raise Interrupted(AT_FIRST)


@contextmanager
def stoppable(folder: Path, tell: Tell) -> Iterator[PeerStopRequest]:
    """Yield what knows whether the process was asked to stop; say how to continue if it was.

    For the process of a peer only: afterwards it ends, and signals are ignored.

    Ctrl-C is passed on as `Interrupted`, whose exit code tells a shell to stop as well. A service
    that is asked to stop by SIGTERM or SIGHUP, and does, has succeeded.
    """
    request = PeerStopRequest()
    with _handled(request):
        try:
            yield request
        except Interrupted as interrupted:
            command = shlex.join(["coterie", "peer", "run", str(folder)])
            what = f"{interrupted} Continue with: {command}"
            if request.number in (None, signal.SIGINT):
                raise Interrupted(what) from None
            with suppress(OSError):  # the terminal may be closed
                tell(what)


@contextmanager
def _handled(request: PeerStopRequest) -> Iterator[None]:
    """Let a request receive the signals.

    Afterwards there is nothing left to stop, but it takes a second until libraries have ended,
    and a signal must not change how the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    with handled_by(request.receive, always=[signal.SIGTERM], afterwards=signal.SIG_IGN):
        yield
