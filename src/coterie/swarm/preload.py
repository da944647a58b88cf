"""Modules that every peer of a swarm needs: loaded once before the peers are forked."""

from __future__ import annotations

import gc
import signal

import coterie.learning.native.native_trainer
import coterie.peer.process  # noqa: F401 — only to load it

if hasattr(signal, "SIGHUP"):  # like Ctrl-C, handled by the process that supervises the peers
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
# The collector writes to every object it visits, and a written page is not shared any more.
gc.collect()
gc.freeze()
