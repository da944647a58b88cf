"""The data of the live page: the progress of the runs, and the views of a report."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from coterie.reports.html.page_data import VIEWS, make_titles
from coterie.reports.html.run_groups import RunGroup, group_runs
from coterie.reports.live.progress_text import describe_progress, describe_run
from coterie.reports.live.run_follower import RunFollower, Snapshot

NUM_PROCESSORS = os.cpu_count() or 1
VIEW_SHARE, READ_SHARE = 0.001, 0.004
"""Shares of the processor time for each view, and for reading the runs: the run needs the rest."""
FIRST_SECONDS = 10.0
"""Maximum pause after the first reading, which reads all rounds."""
PageParts: TypeAlias = dict[str, str]
"""The parts of the page by name: JSON in one line."""


@dataclass
class _CachedView:
    """The last data of a view."""

    snapshot: Snapshot
    text: str
    due: float
    """The time from which the view may be computed again."""


class PageUpdates:
    """Computes the parts of the live page; expensive views are updated less often."""

    def __init__(self, follower: RunFollower) -> None:
        self._follower = follower
        self._snapshot: Snapshot | None = None
        self._due = 0.0
        """The time from which the runs may be read again."""
        self._groups: list[tuple[str, RunGroup]] = []
        self._cache: dict[tuple[str, str], _CachedView] = {}

    def collect(self, *, is_last: bool = False) -> PageParts | None:
        """Return "progress", "groups" and "INDEX/VIEW" of each group; None if nothing is new.

        If it is the last call, or the runs have finished, all views are updated.
        """
        has_news = self._read(is_last)
        snapshot = self._snapshot
        if snapshot is None:
            return None
        update_all = is_last or snapshot.is_finished
        updated = [
            self._update_view(snapshot, title, group, name, view, update_all)
            for title, group in self._groups
            for name, view in VIEWS.items()
        ]
        if not has_news and not any(updated):
            return None
        return {
            "progress": _one_line(_progress(snapshot)),
            "groups": _one_line([title for title, _ in self._groups]),
            **{
                f"{place}/{name}": self._cache[title, name].text
                for place, (title, _) in enumerate(self._groups)
                for name in VIEWS
            },
        }

    def _read(self, is_last: bool) -> bool:
        """Read the runs if it is time; return whether anything is new."""
        now = time.monotonic()
        if self._due > now and not is_last and not self._has_just_ended():
            return False
        begun = time.process_time()
        is_first = self._snapshot is None or not self._snapshot.runs
        newer = self._follower.take_snapshot()
        if newer is not None:
            self._snapshot = newer
            found = group_runs(newer.runs) if newer.runs else []
            self._groups = list(zip(make_titles(found), found, strict=True))
        cost = time.process_time() - begun
        pause = cost / (READ_SHARE * NUM_PROCESSORS)
        self._due = now + (min(pause, FIRST_SECONDS) if is_first else pause)
        return newer is not None

    def _has_just_ended(self) -> bool:
        """Whether all runs have ended since the last snapshot; viewers should see that at once."""
        return not (self._snapshot and self._snapshot.is_finished) and self._follower.has_ended

    def _update_view(
        self,
        snapshot: Snapshot,
        title: str,
        group: RunGroup,
        name: str,
        view: Callable[[RunGroup], Any],
        update_all: bool,
    ) -> bool:
        """Compute a view if it is out of date and due; return whether it was computed."""
        before = self._cache.get((title, name))
        now = time.monotonic()
        if before and (before.snapshot is snapshot or (before.due > now and not update_all)):
            return False
        begun = time.process_time()
        text = _one_line(view(group))
        cost = time.process_time() - begun
        pause = cost / (VIEW_SHARE * NUM_PROCESSORS)
        # The first time all runs are read, later only those with new rounds.
        due = now + (pause if before else min(pause, FIRST_SECONDS))
        self._cache[title, name] = _CachedView(snapshot, text, due)
        return True


def _progress(snapshot: Snapshot) -> dict[str, Any]:
    going = [run for run in snapshot.progress if run.state in ("running", "quiet")]
    return {
        "text": describe_progress(snapshot),
        "done": snapshot.num_done,
        "total": snapshot.num_rounds,
        "current": [describe_run(run) for run in going],
        "problems": list(snapshot.runs.problems),
        "command": shlex.join(["coterie", "watch", str(snapshot.folder)]),
    }


def _one_line(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
