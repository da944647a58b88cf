"""Worker processes, and signals that come while they start, or go to their whole group."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.synchronize import Event

import pytest

from coterie.errors import Interrupted
from coterie.learning.parallel_trainer import can_fork
from coterie.processes.signals import SIGNAL_NAMES, interrupted_by_signals
from coterie.processes.worker_process import become_worker, hold_signals

pytestmark = pytest.mark.skipif(not can_fork(), reason="needs forked processes")


every_signal = pytest.mark.parametrize("number", SIGNAL_NAMES, ids=SIGNAL_NAMES.values())


def begin_slowly(parent: int, number: int, has_begun: Event, was_signalled: Event) -> None:
    has_begun.set()
    was_signalled.wait()
    become_worker(parent)
    os.kill(os.getpid(), number)  # from now on it is ignored


def test_only_sigterm_of_its_parent_ends_a_worker():
    context = multiprocessing.get_context("fork")
    is_ready = context.Event()

    def work(parent: int) -> None:
        become_worker(parent)
        for number in SIGNAL_NAMES:
            os.kill(os.getpid(), number)
        is_ready.set()
        signal.pause()

    worker = context.Process(target=work, args=(os.getpid(),))
    with hold_signals():
        worker.start()
    assert is_ready.wait(60)
    assert worker.is_alive()
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == 1


@every_signal
def test_no_signal_of_a_group_ends_a_worker_that_is_starting(number):
    context = multiprocessing.get_context("fork")
    has_begun, was_signalled = context.Event(), context.Event()
    arguments = (os.getpid(), number, has_begun, was_signalled)
    worker = context.Process(target=begin_slowly, args=arguments)
    with hold_signals():
        worker.start()
    has_begun.wait()
    # From another process, as from a terminal: what its parent sends is meant for it.
    os.waitpid(os.posix_spawnp("kill", ["kill", f"-{int(number)}", str(worker.pid)], os.environ), 0)
    was_signalled.set()
    worker.join(60)
    assert worker.exitcode == 0


@every_signal
def test_a_signal_while_workers_start_is_not_lost(number):
    has_started = []

    def start() -> None:
        with hold_signals():
            # Not to the process: one of its other threads would take it at once.
            signal.pthread_kill(threading.get_ident(), number)
            has_started.append(True)

    with interrupted_by_signals(), pytest.raises(Interrupted, match=SIGNAL_NAMES[number]):
        start()
    assert has_started
