"""The loop over the rounds of a run: records, checkpoints, resumes and stops on request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypedDict, Unpack

from coterie.errors import Interrupted
from coterie.learning.trainer_choice import Tell
from coterie.processes.signals import stop_by_signal, stop_source
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.round_runner import AnyRun

RECORDS = "records"
"""The key of the records in a checkpoint."""


class LoopOptions(TypedDict, total=False):
    """How rounds are run: see `advance_to_end`."""

    checkpoint_every: int
    on_round: Callable[[Round], None] | None
    asked_to_stop: Callable[[], bool] | None


def run_to_end(
    run: AnyRun,
    recorder: Recorder,
    checkpoints: Checkpoints | None = None,
    *,
    tell: Tell = print,
    **how: Unpack[LoopOptions],
) -> bool:
    """Resume from a checkpoint, if there is one, and advance to the end; see `advance_to_end`."""
    if checkpoints is not None:
        resume(run, recorder, checkpoints, tell)
    return advance_to_end(run, recorder, checkpoints, tell=tell, **how)


def advance_to_end(
    run: AnyRun,
    recorder: Recorder,
    checkpoints: Checkpoints | None = None,
    *,
    checkpoint_every: int = 1,
    on_round: Callable[[Round], None] | None = None,
    tell: Tell = print,
    asked_to_stop: Callable[[], bool] | None = None,
    records_in_checkpoints: bool = False,
) -> bool:
    """Advance to the end of the run; finished rounds are on the disk, however the run ends.

    Return whether a stop was requested in the last round, when nothing was left to stop.

    With `records_in_checkpoints`, checkpoints contain the records that are not written yet. That is
    one file per round instead of a dozen, for runs that save every round.

    After a first Ctrl-C, SIGTERM or SIGHUP the run finishes the round and saves it. A second one
    ends the run at once; rounds after the last checkpoint are lost. With `asked_to_stop` the caller
    handles signals.
    """
    with nullcontext(asked_to_stop) if asked_to_stop else stop_by_signal(tell) as asked:
        try:
            while not run.finished:
                now = run.advance()
                recorder.add(now)
                if on_round is not None:
                    on_round(now)
                stop = asked()
                due = now.number % checkpoint_every == 0 or run.finished or stop
                if checkpoints is not None and due:
                    # Records first: all rounds before a checkpoint must be recorded.
                    if records_in_checkpoints:
                        run.save_to(checkpoints, {RECORDS: recorder.pending()})
                    else:
                        recorder.flush()
                        run.save_to(checkpoints)
                recorder.flush_if_due()
                if stop and not run.finished:
                    raise Interrupted(f"Stopped by {stop_source(asked)} after round {now.number}.")
        finally:
            recorder.flush()
        recorder.finish()
        return asked()


def resume(run: AnyRun, recorder: Recorder, checkpoints: Checkpoints, tell: Tell) -> None:
    """Continue from the newest checkpoint that is not damaged."""
    saved = checkpoints.read_newest(tell)
    if saved is not None:
        run.restore(saved)
    recorder.rewind(run.next_round)
    if saved is not None:
        recorder.add_pending(saved.get(RECORDS, {}))
