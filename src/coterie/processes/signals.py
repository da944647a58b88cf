"""Handles the signals that ask to stop: Ctrl-C, SIGTERM, and SIGHUP when a terminal closes.

A signal that this process inherited as ignored stays ignored: nohup and the background jobs of a
shell need that.
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
"""The signals that ask to stop, and their names for users."""
SAME_REQUEST_SECONDS = 1.0
"""A second SIGTERM within this time belongs to the first request: `timeout` sends two."""
Handle = Callable[[int, FrameType | None], None]
_interrupted: list[str] = []
"""The interruptions of this command. Where Python cannot raise `Interrupted`, such as in a
destructor, it prints it and continues."""


class StopRequest:
    """A request to stop this process; calling it returns whether there is one."""

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
        """The name of the signal."""
        return "Ctrl-C" if self.number is None else SIGNAL_NAMES[self.number]

    @property
    def is_unnoticed(self) -> bool:
        """Whether there is a request that the process has not noticed."""
        return self.number is not None and not self._is_noticed

    def record(self, number: int) -> None:
        """Record a signal that asks to stop."""
        self.number = number
        self._made_at = time.monotonic()

    def is_urgent(self, number: int) -> bool:
        """Whether another signal asks to stop at once.

        A shell repeats SIGHUP, and `timeout` SIGTERM, although no user is in a hurry.
        """
        if number == signal.SIGTERM:
            return time.monotonic() - self._made_at > SAME_REQUEST_SECONDS
        return number == signal.SIGINT


def stop_source(asked: Callable[[], bool]) -> str:
    """Return the name of the signal that asked to stop."""
    return asked.by if isinstance(asked, StopRequest) else "Ctrl-C"


@contextmanager
def handle_signals(
    handle: Handle, *, always: Collection[int] = (), afterwards: signal.Handlers | None = None
) -> Iterator[None]:
    """Use `handle` for the signals that ask to stop, except for ignored ones not in `always`.

    At the end the signals get back their old handlers, or get the one in `afterwards`.
    """
    previous = {number: signal.getsignal(number) for number in SIGNAL_NAMES}
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def handle_signal(number: int, frame: FrameType | None) -> None:
        _redirect_closed(terminals)
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
    """Raise `Interrupted` at once for each signal that asks to stop."""

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
    """Yield a `StopRequest` that the first signal fills; a second signal raises `Interrupted`.

    A request that was not noticed raises `Interrupted` at the end.
    """
    asked = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread receives signals
        return
    if _interrupted:
        raise Interrupted(_interrupted[-1])

    def handle(number: int, frame: FrameType | None) -> None:
        if asked():
            if asked.is_urgent(number):
                raise Interrupted("Stopped at once. Rounds after the last checkpoint are lost.")
            return
        asked.record(number)
        with suppress(OSError):  # the run must be saved even if the message cannot be written
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


def _redirect_closed(terminals: list[int]) -> None:
    """Redirect output for closed terminals to the null device, because writing there fails."""
    for stream in terminals:
        if not os.isatty(stream):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream)
            os.close(null)
