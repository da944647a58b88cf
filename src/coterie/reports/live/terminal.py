"""The live view for people on ssh: a screen that fits 80 columns, or lines without a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coterie.reports.html.subjects import Subject, subjects
from coterie.reports.live.follower import Follower, RunProgress, Sight
from coterie.reports.live.progress_text import remaining, runs_done, waiting_for, where
from coterie.reports.live.standings import Standing, standings

BLOCKS = "▁▂▃▄▅▆▇█"
MAX_RUNS = 6
"""How many runs are named; the screen is for what is going on now."""
MAX_PROBLEMS = 3
MAX_LABEL = 18
LOOK_SECONDS = 1.0
"""How often the runs are looked at, at most."""
SHARE = 0.01
"""Which share of one processor that may take; the run needs them all."""


def follow(follower: Follower, console: Console) -> None:
    """Show the runs of a folder until all have finished."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            _watch(follower, lambda sight: live.update(screen(sight, console.width), refresh=True))
    else:
        lines = Lines()

        def tell(sight: Sight) -> None:
            for line in lines.new(sight):
                console.print(line, soft_wrap=True, highlight=False, markup=False)

        _watch(follower, tell)


def _watch(follower: Follower, show: Callable[[Sight], None]) -> None:
    pause = 0.0
    while True:
        time.sleep(pause)
        begun = time.process_time()
        sight = follower.look()
        if sight is not None:
            show(sight)
            if sight.is_finished:
                return
        cost = time.process_time() - begun
        # The first look reads everything, the others only what is new.
        pause = max(LOOK_SECONDS, cost / SHARE) if pause else LOOK_SECONDS


def screen(sight: Sight, width: int) -> RenderableType:
    """Return all that is shown at one moment."""
    if not sight.progress:
        return Group(Text(waiting_for(sight)), *_problems(sight))
    parts: list[RenderableType] = [_overall(sight), *_current_runs(sight)]
    if sight.gathered:
        for subject in subjects(sight.gathered):
            parts += [Text(), _standings(subject, sight, width)]
    return Group(*parts, *_problems(sight))


def sparkline(values: Sequence[float | None], length: int) -> str:
    """Draw a curve with blocks, from its lowest to its highest value."""
    known = [value for value in values if value is not None]
    if not known or length < 1:
        return ""
    picked = [known[round(n * (len(known) - 1) / max(length - 1, 1))] for n in range(length)]
    picked = picked if len(known) > length else known
    low, span = min(known), (max(known) - min(known)) or 1.0
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in picked)


def shortened(text: str, length: int) -> str:
    """Leave out the middle of a long name: what tells variants apart stands at its end."""
    if len(text) <= length:
        return text
    end = (length - 1) // 2
    return f"{text[: length - 1 - end]}…{text[-end:]}"


def _overall(sight: Sight) -> RenderableType:
    done, total = sight.num_done, max(sight.num_rounds, 1)
    line = Table.grid(padding=(0, 1))
    line.add_row(
        Text(sight.title, style="bold", overflow="ellipsis", no_wrap=True),
        ProgressBar(total=total, completed=done, width=20),
        Text(f"{done / total:.0%}"),
        Text(runs_done(sight), no_wrap=True),
        Text(remaining(sight.seconds_left), style="cyan", no_wrap=True),
    )
    return line


def _current_runs(sight: Sight) -> list[RenderableType]:
    going = [run for run in sight.progress if run.state in ("running", "quiet")]
    lines: list[RenderableType] = [
        Text(f"  {where(run)}", no_wrap=True, overflow="ellipsis") for run in going[:MAX_RUNS]
    ]
    if len(going) > MAX_RUNS:
        lines.append(Text(f"  … and {len(going) - MAX_RUNS} more"))
    return lines


def _standings(subject: Subject, sight: Sight, width: int) -> Table:
    """Return one line per strategy; the curve gets what the numbers leave of the width."""
    rows = standings(subject)
    digits = 1 if subject.is_accuracy else 3
    what = "validation accuracy %" if subject.is_accuracy else "validation loss"
    table = Table(title=what, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    clusters = _shown_clusters(subject, width)
    table.add_column("strategy", no_wrap=True)
    for name in (*clusters, "all", "own cluster"):
        table.add_column(
            Text(name, overflow="ellipsis", no_wrap=True), justify="right", max_width=11
        )
    table.add_column("over rounds", no_wrap=True)
    used = 20 + sum(max(len(name[:11]), 5) + 2 for name in clusters) + 7 + 13
    for row in rows:
        values = row.per_cluster if len(clusters) == len(row.per_cluster) else _ends(row)
        cells = [_written(value, digits) for value in (*values, row.all_peers)]
        fetched = "–" if row.precision is None else f"{row.precision:.0f}%"
        curve = sparkline(row.curve, max(min(width - used, 24), 4))
        table.add_row(Text(shortened(row.label, MAX_LABEL)), *cells, fetched, curve)
    return table


def _shown_clusters(subject: Subject, width: int) -> list[str]:
    """Return the clusters' names; of more than fit only the extremes are shown."""
    names = list(subject.cluster_names)
    needed = 20 + sum(max(len(name[:11]), 5) + 2 for name in names) + 7 + 13 + 8
    if len(names) < 2:
        return []
    return names if needed <= width else ["lowest", "highest"]


def _ends(row: Standing) -> tuple[float | None, ...]:
    if len(row.per_cluster) < 2:
        return ()
    known = [value for value in row.per_cluster if value is not None]
    return (min(known), max(known)) if known else (None, None)


def _written(value: float | None, digits: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _problems(sight: Sight) -> list[RenderableType]:
    found = sight.gathered.problems
    shown: list[RenderableType] = [
        Text(problem, style="yellow") for problem in found[:MAX_PROBLEMS]
    ]
    if len(found) > MAX_PROBLEMS:
        shown.append(Text(f"… and {len(found) - MAX_PROBLEMS} more problems", style="yellow"))
    return shown


class Lines:
    """One line for each change, for files and pipes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, str]] = {}
        self._said: set[str] = set()

    def new(self, sight: Sight) -> list[str]:
        """Return what has changed since the last time."""
        lines = [] if sight.progress else self._once(waiting_for(sight))
        for problem in sight.gathered.problems:
            lines += self._once(problem)
        for run in sight.progress:
            now = (run.num_done, run.state)
            if run.state != "waiting" and self._told.get(run.name) != now:
                self._told[run.name] = now
                lines.append(self._line(run, sight))
        return lines

    def _once(self, text: str) -> list[str]:
        if text in self._said:
            return []
        self._said.add(text)
        return [text]

    def _line(self, run: RunProgress, sight: Sight) -> str:
        found = next((each for each in sight.gathered if each.folder.name == run.name), None)
        parts = [where(run)]
        if found is not None:
            (row,) = standings(Subject((found,)))
            unit, digits = ("%", 1) if found.is_accuracy else ("", 4)
            parts.append(f"validation {_written(row.all_peers, digits)}{unit}")
            if row.precision is not None:
                parts.append(f"{row.precision:.0f}% fetched from the own cluster")
        whole = f"{sight.num_done} of {sight.num_rounds} rounds in all"
        ending = "finished" if run.state == "finished" else remaining(sight.seconds_left)
        return ", ".join(part for part in (*parts, whole, ending) if part)
