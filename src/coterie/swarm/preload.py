"""What every peer of a swarm needs: loaded once, before they are forked, and shared by them all."""

from __future__ import annotations

import gc
import signal

import coterie.learning.native.trainer
import coterie.peer.process  # noqa: F401 — loading it is all

if hasattr(signal, "SIGHUP"):  # like Ctrl-C left to the process that looks after the peers
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
# The collector writes to every object it looks at, and a page that is written to is shared no more.
gc.collect()
gc.freeze()
