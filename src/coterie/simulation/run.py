"""Runs a simulation to its end: records, checkpoints, resumes, and stops cleanly on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from coterie.errors import Interrupted
from coterie.simulation.checkpoint import Checkpoints
from coterie.simulation.recorder import Recorder
from coterie.simulation.round import Round
from coterie.simulation.simulator import Simulation

Tell = Callable[[str], None]


def run_to_end(
    simulation: Simulation,
    recorder: Recorder,
    checkpoints: Checkpoints | None = None,
    *,
    checkpoint_every: int = 1,
    on_round: Callable[[Round], None] | None = None,
    tell: Tell = print,
) -> None:
    """Advance until finished. Whatever ends it, what was computed is on disk.

    After a first Ctrl-C the round is finished and saved; a second one ends at once and loses what
    came after the last checkpoint.
    """
    if checkpoints is not None:
        _resume(simulation, recorder, checkpoints, tell)
    with _asked_to_stop(tell) as stop:
        try:
            while not simulation.finished:
                now = simulation.advance()
                recorder.add(now)
                if on_round is not None:
                    on_round(now)
                due = now.number % checkpoint_every == 0 or simulation.finished or stop.is_set()
                if checkpoints is not None and due:
                    # Records first: a checkpoint promises that everything before it is recorded.
                    recorder.flush()
                    checkpoints.write(simulation.next_round, simulation.save())
                recorder.flush_if_due()
                if stop.is_set() and not simulation.finished:
                    raise Interrupted(f"Stopped by Ctrl-C after round {now.number}.")
        finally:
            recorder.flush()
        recorder.finish()


def _resume(
    simulation: Simulation, recorder: Recorder, checkpoints: Checkpoints, tell: Tell
) -> None:
    saved = checkpoints.read_newest(tell)
    if saved is not None:
        simulation.restore(saved)
    recorder.rewind(simulation.next_round)


@contextmanager
def _asked_to_stop(tell: Tell) -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals reach the main thread only
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise Interrupted("Stopped at once; what came after the last checkpoint is lost.")
        stop.set()
        tell("Finishing this round, then saving. Press Ctrl-C again to stop at once.")

    previous = {kind: signal.signal(kind, handle) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)
