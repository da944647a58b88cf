"""Runs several functions at the same time, each in a worker process.

Workers are forked where that is safe, so that they share data in memory; otherwise spawned. Each
has its own pipe to the parent, so a killed worker cannot leave a lock behind.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from coterie.errors import CoterieError, Interrupted, WorkerDied
from coterie.learning.parallel_trainer import can_fork
from coterie.processes.worker_process import become_worker, hold_signals

WAIT_SECONDS = 0.2
"""The longest time until a request to stop is noticed."""


class ParentLink:
    """A worker's connection to its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Any) -> None:
        """Send plain data to the parent."""
        self._connection.send(message)

    def asked_to_stop(self) -> bool:
        """Whether the parent asks this worker to stop."""
        return self._connection.poll()


Work = Callable[[ParentLink], None]
Name = str


@dataclass(frozen=True)
class _Ended:
    """The last message of a worker; without it, the worker was killed."""

    error: BaseException | None


@dataclass(frozen=True)
class _Worker:
    name: Name
    process: BaseProcess


class ParallelRuns:
    """Runs functions in worker processes, at most `count` at a time."""

    def __init__(
        self,
        count: int,
        *,
        on_message: Callable[[Name, Any], None],
        on_end: Callable[[Name, BaseException | None], None],
    ) -> None:
        self._count = count
        self._on_message = on_message
        self._on_end = on_end
        self._workers: dict[Connection, _Worker] = {}
        self._context: BaseContext = multiprocessing.get_context("fork" if can_fork() else "spawn")

    def run(self, work: Iterator[tuple[Name, Work]], asked_to_stop: Callable[[], bool]) -> None:
        """Run all work; once asked to stop, start nothing more and ask the workers to stop.

        When this returns or raises, no worker is left.
        """
        has_asked = False
        try:
            while self._start_workers(work, asked_to_stop) or self._workers:
                if asked_to_stop() and not has_asked:
                    self._ask_to_stop()
                    has_asked = True
                for connection in wait(list(self._workers), WAIT_SECONDS):
                    if isinstance(connection, Connection):
                        self._receive(connection)
        finally:
            self._kill_all()

    def _start_workers(self, work: Iterator[tuple[Name, Work]], stop: Callable[[], bool]) -> bool:
        """Start workers up to the count; return whether there may be more work."""
        while not stop() and len(self._workers) < self._count:
            piece = next(work, None)
            if piece is None:
                return False
            self._start(*piece)
        return not stop()

    def _start(self, name: Name, work: Work) -> None:
        here, there = self._context.Pipe()
        # multiprocessing's contexts have their Process only in their subclasses, for type checkers.
        process: BaseProcess = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(there, work, os.getpid()), name=name
        )
        with hold_signals():
            process.start()
        # Now only the worker has its end open: the connection closes when the worker ends.
        there.close()
        self._workers[here] = _Worker(name, process)

    def _ask_to_stop(self) -> None:
        for connection in self._workers:
            with suppress(OSError):  # it has just ended
                connection.send(None)

    def _receive(self, connection: Connection) -> None:
        worker = self._workers[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            message = _Ended(WorkerDied(_why(worker.process.exitcode)))
        if not isinstance(message, _Ended):
            self._on_message(worker.name, message)
            return
        worker.process.join()
        del self._workers[connection]
        connection.close()
        self._on_end(worker.name, message.error)

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for connection, worker in self._workers.items():
            worker.process.join()
            connection.close()
        self._workers.clear()


def _why(code: int | None) -> str:
    killed = code is not None and code < 0
    how = f"was killed ({signal.Signals(-code).name})" if killed and code else "died"
    return (
        f"its process {how}, most likely because memory ran out. Free some memory or use a "
        "smaller --side-by-side, then resume. The run continues from its last checkpoint."
    )


def _work(connection: Connection, work: Work, parent: int) -> None:
    """Run a function in a new process and send how it ended."""
    become_worker(parent, sigterm_from="none")  # the parent ends workers with SIGKILL
    torch.set_num_threads(1)
    error: BaseException | None = None
    try:
        work(ParentLink(connection))
    except (CoterieError, Interrupted) as failure:
        error = failure
    except Exception:
        # A bug: the parent shows it with its traceback.
        error = RuntimeError(traceback.format_exc())
    connection.send(_Ended(error))
