"""What every worker process does first: leave signals to its parent, and never outlive it."""

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
    """Start worker processes within: no Ctrl-C reaches them before they follow, nor gets lost.

    The same holds for the other signals that ask to stop. Workers inherit that they have to wait.
    This thread gets them when all have been started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where no worker begins as a copy of this
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_NAMES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_worker(parent: int, sigterm_from: Literal["parent", "all", "none"] = "parent") -> None:
    """Make this process a worker of its parent, given by its number."""
    # What ends a terminal or a job goes to the whole process group; the parent alone decides how
    # to end. What `starting` kept back is ignored from here on.
    for number in SIGNAL_NAMES.keys() - {signal.SIGTERM}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if sigterm_from == "none" else signal.SIG_DFL)
    # To know the sender, one thread waits for it; in the others it is kept back.
    waits = sigterm_from == "parent" and hasattr(signal, "sigtimedwait")
    if hasattr(signal, "pthread_sigmask"):
        if waits:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        kept_back = {signal.SIGTERM} if waits else set()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_NAMES.keys() - kept_back)
    wait = _await_end if waits else _watch_parent
    threading.Thread(target=wait, args=(parent,), daemon=True).start()


def _await_end(parent: int) -> None:
    """End when the parent is gone, lest workers be left behind, or when it sends SIGTERM.

    This is how a broken pool is cleared. SIGTERM from others may have gone to the whole group.
    """
    while os.getppid() == parent:
        got = signal.sigtimedwait({signal.SIGTERM}, PARENT_CHECK_SECONDS)
        if got is not None and got.si_pid == parent:
            break
    os._exit(1)


def _watch_parent(parent: int) -> None:
    """End when the parent is gone, lest workers be left behind."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
