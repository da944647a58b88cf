"""What every worker process does first: leave Ctrl-C to its parent, and never outlive it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PARENT_CHECK_SECONDS = 0.5


@contextmanager
def starting() -> Iterator[None]:
    """Start worker processes within: no Ctrl-C reaches them before they follow, nor gets lost.

    They inherit that it has to wait. This thread gets it when all have been started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where no worker begins as a copy of this
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow(parent: int) -> None:
    """Make this process a worker of its parent, given by its number."""
    # Ctrl-C goes to the whole process group; the parent alone decides how to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # what `starting` kept back is ignored from here on
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Whatever the parent does on SIGTERM, a worker ends: this is how a broken pool is cleared.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a killed one must not leave workers behind."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
