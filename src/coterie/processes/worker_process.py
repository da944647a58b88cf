"""Worker processes: they leave signals to their parent, and end with it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from coterie.processes.signals import SIGNAL_NAMES

PARENT_CHECK_SECONDS = 0.5


@contextmanager
def hold_signals() -> Iterator[None]:
    """Hold back the signals that ask to stop while worker processes start.

    So no signal reaches a worker before `become_worker`, and none is lost: this thread receives
    them at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where workers do not inherit the mask
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_NAMES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_worker(parent: int, sigterm_from: Literal["parent", "all", "none"] = "parent") -> None:
    """Make this process a worker of the parent with this process id."""
    # A terminal or a job sends signals to the whole process group, but only the parent decides how
    # to end. Signals that `hold_signals` held back are ignored from here on.
    for number in SIGNAL_NAMES.keys() - {signal.SIGTERM}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if sigterm_from == "none" else signal.SIG_DFL)
    # One thread waits for SIGTERM, which shows its sender; the other threads block it.
    waits = sigterm_from == "parent" and hasattr(signal, "sigtimedwait")
    if hasattr(signal, "pthread_sigmask"):
        if waits:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        blocked = {signal.SIGTERM} if waits else set()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_NAMES.keys() - blocked)
    wait = _await_end if waits else _watch_parent
    threading.Thread(target=wait, args=(parent,), daemon=True).start()


def _await_end(parent: int) -> None:
    """End this process when its parent has ended, or when the parent sends SIGTERM.

    A broken process pool sends SIGTERM to its workers. A SIGTERM from elsewhere is ignored: it may
    have gone to the whole group.
    """
    while os.getppid() == parent:
        got = signal.sigtimedwait({signal.SIGTERM}, PARENT_CHECK_SECONDS)
        if got is not None and got.si_pid == parent:
            break
    os._exit(1)


def _watch_parent(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
