"""Signals that ask to stop: Ctrl-C, SIGTERM, and SIGHUP when a terminal is closed.

A signal that this process inherited as ignored stays ignored: nohup, and the background jobs of a
shell, rely on it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from coterie.errors import CoterieError, Interrupted

SIGNAL_NAMES = {
    getattr(signal, name): words
    for name, words in (("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM"), ("SIGHUP", "SIGHUP"))
    if hasattr(signal, name)  # Windows has no SIGHUP
}
"""The signals that ask to stop, and what people call them."""
SAME_REQUEST_SECONDS = 1.0
"""How long after a request another SIGTERM belongs to it: `timeout` sends two, to us and to all."""
Handle = Callable[[int, FrameType | None], None]
_interrupted: list[str] = []
"""How this command was interrupted; where nothing can be raised, such as in a destructor, Python
prints an `Interrupted` and goes on."""


class StopRequest:
    """Whether this process was asked to stop, and how; call it to ask."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first signal that asked to stop."""
        self._made_at = 0.0
        self._is_noticed = False

    def __call__(self) -> bool:
        if self.number is not None:
            self._is_noticed = True
        return self.number is not None

    @property
    def by(self) -> str:
        """What asked to stop, as people call it."""
        return "Ctrl-C" if self.number is None else SIGNAL_NAMES[self.number]

    @property
    def is_unnoticed(self) -> bool:
        """Whether there was a request that was never noticed."""
        return self.number is not None and not self._is_noticed

    def make(self, number: int) -> None:
        """Ask to stop."""
        self.number = number
        self._made_at = time.monotonic()

    def is_urgent(self, number: int) -> bool:
        """Whether another signal means to stop at once; a shell repeats SIGHUP, and `timeout`
        SIGTERM, without a person's being impatient."""
        if number == signal.SIGTERM:
            return time.monotonic() - self._made_at > SAME_REQUEST_SECONDS
        return number == signal.SIGINT


def stop_source(asked: Callable[[], bool]) -> str:
    """Return what asked to stop, as people call it."""
    return asked.by if isinstance(asked, StopRequest) else "Ctrl-C"


@contextmanager
def handle_signals(
    handle: Handle, *, always: Collection[int] = (), afterwards: signal.Handlers | None = None
) -> Iterator[None]:
    """Let a function handle the signals that ask to stop, except those that are ignored.

    Those in `always` are handled all the same. Afterwards the signals have their handlers of
    before, or the one that is given.
    """
    previous = {number: signal.getsignal(number) for number in SIGNAL_NAMES}
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def handle_signal(number: int, frame: FrameType | None) -> None:
        _forget_closed(terminals)
        handle(number, frame)

    for number, handler in previous.items():
        if handler is not signal.SIG_IGN or number in always:
            signal.signal(number, handle_signal)
    try:
        yield
    finally:
        for number, handler in previous.items():
            before = signal.SIG_DFL if handler is None else handler
            signal.signal(number, before if afterwards is None else afterwards)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Let the signals that ask to stop interrupt what is done within, at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        _interrupted.append(f"Stopped by {SIGNAL_NAMES[number]}.")
        raise Interrupted(_interrupted[-1])

    try:
        with handle_signals(handle):
            yield
    finally:
        _interrupted.clear()


@contextmanager
def stop_by_signal(
    tell: Callable[[str], None], what_happens: str = "Finishing this round, then saving."
) -> Iterator[StopRequest]:
    """Yield whether a signal asked to stop; a second one interrupts at once.

    A request that came too late to be noticed within is passed on.
    """
    asked = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # signals reach the main thread only
        return
    if _interrupted:
        raise Interrupted(_interrupted[-1])

    def handle(number: int, frame: FrameType | None) -> None:
        if asked():
            if asked.is_urgent(number):
                raise Interrupted("Stopped at once; what came after the last checkpoint is lost.")
            return
        asked.make(number)
        with suppress(OSError):  # the run has to be saved even if its output goes nowhere
            tell(f"{what_happens} Press Ctrl-C again to stop at once.")

    try:
        with handle_signals(handle):
            yield asked
    except CoterieError as error:
        if asked.is_unnoticed:
            raise Interrupted(f"Stopped by {asked.by}.") from error
        raise
    if asked.is_unnoticed:
        raise Interrupted(f"Stopped by {asked.by}.")


def _forget_closed(terminals: list[int]) -> None:
    """Send to nowhere what would go to terminals that are closed: to write there is an error."""
    for stream in terminals:
        if not os.isatty(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
