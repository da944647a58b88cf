"""What the live page is told: how far the runs are, and the data of a report's views."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from coterie.reports.html.page_data import VIEWS, titles
from coterie.reports.html.subjects import Subject, subjects
from coterie.reports.live.follower import Follower, Sight
from coterie.reports.live.progress_text import overall, where

NUM_PROCESSORS = os.cpu_count() or 1
VIEW_SHARE, LOOK_SHARE = 0.001, 0.004
"""Which shares of this computer each view, and looking, may take: the run needs it all."""
FIRST_SECONDS = 10.0
"""How long the first look, which reads everything, delays the second at most."""
Parts: TypeAlias = dict[str, str]
"""What is shown, in parts that change at different times: JSON in one line, by name."""


@dataclass
class _Made:
    """A view as it was last made."""

    of: Sight
    text: str
    due: float
    """From when on it may be made anew."""


class Teller:
    """Says what there is to show: every view as new as its cost allows."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._sight: Sight | None = None
        self._due = 0.0
        """From when on the runs may be looked at again."""
        self._subjects: list[tuple[str, Subject]] = []
        self._made: dict[tuple[str, str], _Made] = {}

    def look(self, *, is_last: bool = False) -> Parts | None:
        """Return "progress", the "subjects" and "PLACE/VIEW" of each, as static/live.js reads them.

        None if there is nothing new. The last look, of the watcher or at a run, leaves nothing out.
        """
        has_news = self._look(is_last)
        sight = self._sight
        if sight is None:
            return None
        in_a_hurry = is_last or sight.is_finished
        made = [
            self._make(sight, title, subject, name, view, in_a_hurry)
            for title, subject in self._subjects
            for name, view in VIEWS.items()
        ]
        if not has_news and not any(made):
            return None
        return {
            "progress": _one_line(_progress(sight)),
            "subjects": _one_line([title for title, _ in self._subjects]),
            **{
                f"{place}/{name}": self._made[title, name].text
                for place, (title, _) in enumerate(self._subjects)
                for name in VIEWS
            },
        }

    def _look(self, is_last: bool) -> bool:
        """Look at the runs if it is time; return whether there is anything new."""
        now = time.monotonic()
        if self._due > now and not is_last and not self._is_unseen_end():
            return False
        begun = time.process_time()
        is_first = self._sight is None or not self._sight.gathered
        seen = self._follower.look()
        if seen is not None:
            self._sight = seen
            found = subjects(seen.gathered) if seen.gathered else []
            self._subjects = list(zip(titles(found), found, strict=True))
        cost = time.process_time() - begun
        pause = cost / (LOOK_SHARE * NUM_PROCESSORS)
        self._due = now + (min(pause, FIRST_SECONDS) if is_first else pause)
        return seen is not None

    def _is_unseen_end(self) -> bool:
        """Whether there is a last thing to tell: nobody should wait for that."""
        return not (self._sight and self._sight.is_finished) and self._follower.has_ended

    def _make(
        self,
        sight: Sight,
        title: str,
        subject: Subject,
        name: str,
        view: Callable[[Subject], Any],
        in_a_hurry: bool,
    ) -> bool:
        """Make a view anew if it is behind and due; return whether it was."""
        before = self._made.get((title, name))
        now = time.monotonic()
        if before and (before.of is sight or (before.due > now and not in_a_hurry)):
            return False
        begun = time.process_time()
        text = _one_line(view(subject))
        cost = time.process_time() - begun
        pause = cost / (VIEW_SHARE * NUM_PROCESSORS)
        # The first time all runs are looked at, later only those that have news.
        due = now + (pause if before else min(pause, FIRST_SECONDS))
        self._made[title, name] = _Made(sight, text, due)
        return True


def _progress(sight: Sight) -> dict[str, Any]:
    going = [run for run in sight.progress if run.state in ("running", "quiet")]
    return {
        "text": overall(sight),
        "done": sight.num_done,
        "total": sight.num_rounds,
        "current": [where(run) for run in going],
        "problems": list(sight.gathered.problems),
        "command": shlex.join(["coterie", "watch", str(sight.folder)]),
    }


def _one_line(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
