"""The progress of runs in words, for the live page and the terminal."""

from __future__ import annotations

from pathlib import Path

from coterie.reports.live.run_follower import RunProgress, Snapshot


def describe_wait(snapshot: Snapshot) -> str:
    """Return what the live view waits for before the first round."""
    if snapshot.runs.problems:
        return f"{snapshot.folder} cannot be shown."
    if not snapshot.folder.exists():
        return describe_missing_folder(snapshot.folder)
    return f"Waiting for a run to start in {snapshot.folder}."


def describe_missing_folder(folder: Path) -> str:
    """Return that the folder is missing: the run may start later, or the path is wrong."""
    return f"Waiting for {folder}: there is no such folder yet."


def describe_progress(snapshot: Snapshot) -> str:
    """Return the progress of all runs."""
    if not snapshot.progress:
        return describe_wait(snapshot)
    share = snapshot.num_done / max(snapshot.num_rounds, 1)
    rounds = f"{snapshot.num_done:,} of {snapshot.num_rounds:,} rounds ({share:.0%})"
    ending = "finished" if snapshot.is_finished else describe_time_left(snapshot.seconds_left)
    parts = (rounds, count_finished(snapshot) if len(snapshot.progress) > 1 else "", ending)
    return ", ".join(part for part in parts if part)


def count_finished(snapshot: Snapshot) -> str:
    """Return the number of finished runs."""
    finished = sum(run.state == "finished" for run in snapshot.progress)
    return f"{finished} of {len(snapshot.progress)} runs done"


def describe_run(run: RunProgress) -> str:
    """Return the progress of one run."""
    quiet = ", no new round for a while: was it stopped?" if run.state == "quiet" else ""
    return f"{run.name}: round {run.num_done - 1} of {run.num_rounds - 1}{quiet}"


def describe_time_left(seconds: float | None) -> str:
    """Return the remaining time; "" if unknown."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
