"""Asks a peer to stop: Ctrl-C, SIGTERM and SIGHUP, from the first moment of its process on.

Nothing here takes time to load: what a peer needs takes seconds, in which it may be stopped too.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from coterie.errors import Interrupted

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""What asks to stop; Windows has no SIGHUP."""
SAME_SECONDS = 1.0
"""How long after a request another SIGTERM belongs to it: `timeout` sends two."""
AT_FIRST = "Stopped before the first round."
Tell = Callable[[str], None]


class StopRequest:
    """Whether this process was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.number: signal.Signals | None = None
        self._made_at = 0.0
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
            if self._is_urged_by(number):
                os._exit(Interrupted.exit_code)
            return
        self.number = signal.Signals(number)
        self._made_at = time.monotonic()
        if self._act is not None:
            self._act()
        elif not self._is_loading:
            raise Interrupted(AT_FIRST)

    def _is_urged_by(self, number: int) -> bool:
        """Whether another signal means to end at once; a shell repeats SIGHUP by itself."""
        if number == signal.SIGTERM:
            return time.monotonic() - self._made_at > SAME_SECONDS
        return number == signal.SIGINT


@contextmanager
def stoppable(folder: Path, tell: Tell) -> Iterator[StopRequest]:
    """Yield what knows whether the process was asked to stop; say how to continue if it was.

    For the process of a peer only: afterwards it ends, and signals are ignored.

    Ctrl-C is passed on as `Interrupted`, whose exit code tells a shell to stop as well. A service
    that is asked to stop by SIGTERM or SIGHUP, and does, has succeeded.
    """
    request = StopRequest()
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
def _handled(request: StopRequest) -> Iterator[None]:
    """Let a request receive the signals.

    An ignored SIGINT or SIGHUP stays so: nohup and the background jobs of a shell rely on it.
    Afterwards there is nothing left to stop, but it takes a second until libraries have ended,
    and a signal must not change how the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def handle(number: int, frame: FrameType | None) -> None:
        _forget_closed(terminals)
        request.receive(number, frame)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _forget_closed(terminals: list[int]) -> None:
    """Send to nowhere what would go to terminals that are closed: to write there is an error."""
    for stream in terminals:
        if not os.isatty(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
