"""Stops a peer on Ctrl-C, SIGTERM or SIGHUP, from the first moment of its process.

This module imports nothing slow, so that signals are handled while the rest loads.
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
from coterie.processes.signals import StopRequest, handle_signals

AT_FIRST = "Stopped before the first round."
Tell = Callable[[str], None]


class PeerStopRequest(StopRequest):
    """Whether the process of a peer was asked to stop, and the function that stops it."""

    def __init__(self) -> None:
        super().__init__()
        self._act: Callable[[], None] | None = None
        self._is_loading = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Delay requests: some libraries abort the process if loading them is interrupted."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False
        if self.number is not None:
            raise Interrupted(AT_FIRST)

    @contextmanager
    def answered_by(self, act: Callable[[], None]) -> Iterator[None]:
        """Call a function on a request, even on one that was made before."""
        self._act = act
        try:
            if self.number is not None:
                act()
            yield
        finally:
            self._act = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; before the peer has started there is nothing to shut down."""
        if self.number is not None:
            if self.is_urgent(number):
                os._exit(Interrupted.exit_code)
            return
        self.record(number)
        if self._act is not None:
            self._act()
        elif not self._is_loading:
            raise Interrupted(AT_FIRST)


@contextmanager
def stoppable(folder: Path, tell: Tell) -> Iterator[PeerStopRequest]:
    """Yield the stop request of this process; if it is stopped, print how to continue.

    Only for the process of a peer: it must end afterwards, since signals are ignored from then on.

    Ctrl-C is passed on as `Interrupted`, whose exit code stops a calling shell script too. A peer
    that is stopped by SIGTERM or SIGHUP ends with success, as a service should.
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

    Afterwards they are ignored: libraries take a second to end, and a signal must not change how
    the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    with handle_signals(request.receive, always=[signal.SIGTERM], afterwards=signal.SIG_IGN):
        yield
