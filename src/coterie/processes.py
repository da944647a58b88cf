"""What every worker process does first: leave Ctrl-C to its parent, and never outlive it."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT_CHECK_SECONDS = 0.5


def follow(parent: int) -> None:
    """Make this process a worker of its parent, given by its number."""
    # Ctrl-C goes to the whole process group; the parent alone decides how to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever the parent does on SIGTERM, a worker ends: this is how a broken pool is cleared.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a killed one must not leave workers behind."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
