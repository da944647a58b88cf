"""Worker processes, and a Ctrl-C that comes while they start."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.synchronize import Event

import pytest

from coterie.learning.parallel import can_fork
from coterie.processes import follow, starting

pytestmark = pytest.mark.skipif(not can_fork(), reason="needs forked processes")


def begin_slowly(parent: int, has_begun: Event) -> None:
    has_begun.set()
    time.sleep(0.3)
    follow(parent)
    os.kill(os.getpid(), signal.SIGINT)  # from now on it is ignored


def test_ctrl_c_does_not_end_a_worker_that_is_starting():
    context = multiprocessing.get_context("fork")
    has_begun = context.Event()
    worker = context.Process(target=begin_slowly, args=(os.getpid(), has_begun))
    with starting():
        worker.start()
    has_begun.wait()
    os.kill(worker.pid, signal.SIGINT)
    worker.join()
    assert worker.exitcode == 0


def test_ctrl_c_while_workers_start_is_not_lost():
    has_started = []

    def start() -> None:
        with starting():
            # Not to the process: one of its other threads would take it at once.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            has_started.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert has_started
