"""How far runs are, in words: what the page and the terminal say alike."""

from __future__ import annotations

from pathlib import Path

from coterie.reports.live.follower import RunProgress, Sight


def waiting_for(sight: Sight) -> str:
    """Say what is missing before there is anything to show."""
    if sight.gathered.problems:
        return f"{sight.folder} cannot be shown."
    if not sight.folder.exists():
        return no_folder_yet(sight.folder)
    return f"Waiting for a run to begin in {sight.folder}."


def no_folder_yet(folder: Path) -> str:
    """Say that what is watched is not there: the run may begin later, or the path is wrong."""
    return f"Waiting for {folder}: there is no such folder yet."


def overall(sight: Sight) -> str:
    """Say how far everything is."""
    if not sight.progress:
        return waiting_for(sight)
    share = sight.num_done / max(sight.num_rounds, 1)
    rounds = f"{sight.num_done:,} of {sight.num_rounds:,} rounds ({share:.0%})"
    ending = "finished" if sight.is_finished else remaining(sight.seconds_left)
    parts = (rounds, runs_done(sight) if len(sight.progress) > 1 else "", ending)
    return ", ".join(part for part in parts if part)


def runs_done(sight: Sight) -> str:
    """Say how many runs have finished."""
    finished = sum(run.state == "finished" for run in sight.progress)
    return f"{finished} of {len(sight.progress)} runs done"


def where(run: RunProgress) -> str:
    """Say how far one run is."""
    quiet = ", nothing new for a while: was it stopped?" if run.state == "quiet" else ""
    return f"{run.name}: round {run.num_done - 1} of {run.num_rounds - 1}{quiet}"


def remaining(seconds: float | None) -> str:
    """Write about how long it still takes; nothing if nobody knows."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
