"""The live view in a terminal of 80 columns or more; one line per change without a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coterie.reports.html.run_groups import RunGroup, group_runs
from coterie.reports.live.latest_validation import LatestValidation, read_latest_validation
from coterie.reports.live.progress_text import (
    count_finished,
    describe_run,
    describe_time_left,
    describe_wait,
)
from coterie.reports.live.run_follower import RunFollower, RunProgress, Snapshot

BLOCKS = "▁▂▃▄▅▆▇█"
MAX_RUNS = 6
"""Maximum number of runs shown."""
MAX_PROBLEMS = 3
MAX_LABEL = 18
READ_SECONDS = 1.0
"""Minimum time between two readings of the runs."""
PROCESSOR_SHARE = 0.01
"""Share of one processor for reading; the run needs the rest."""


def show_in_terminal(follower: RunFollower, console: Console) -> None:
    """Show the runs of a folder until all have finished."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            _watch(
                follower,
                lambda snapshot: live.update(render_screen(snapshot, console.width), refresh=True),
            )
    else:
        lines = ChangeLines()

        def print_changes(snapshot: Snapshot) -> None:
            for line in lines.describe_changes(snapshot):
                console.print(line, soft_wrap=True, highlight=False, markup=False)

        _watch(follower, print_changes)


def _watch(follower: RunFollower, show: Callable[[Snapshot], None]) -> None:
    pause = 0.0
    while True:
        time.sleep(pause)
        begun = time.process_time()
        snapshot = follower.take_snapshot()
        if snapshot is not None:
            show(snapshot)
            if snapshot.is_finished:
                return
        cost = time.process_time() - begun
        # The first time reads all rounds, so its cost does not count.
        pause = max(READ_SECONDS, cost / PROCESSOR_SHARE) if pause else READ_SECONDS


def render_screen(snapshot: Snapshot, width: int) -> RenderableType:
    """Return the screen for one snapshot."""
    if not snapshot.progress:
        return Group(Text(describe_wait(snapshot)), *_render_problems(snapshot))
    parts: list[RenderableType] = [_render_progress(snapshot), *_render_current_runs(snapshot)]
    if snapshot.runs:
        for group in group_runs(snapshot.runs):
            parts += [Text(), _render_validation(group, width)]
    return Group(*parts, *_render_problems(snapshot))


def draw_sparkline(values: Sequence[float | None], length: int) -> str:
    """Return a curve as blocks, from its lowest to its highest value."""
    known = [value for value in values if value is not None]
    if not known or length < 1:
        return ""
    picked = [known[round(n * (len(known) - 1) / max(length - 1, 1))] for n in range(length)]
    picked = picked if len(known) > length else known
    low, span = min(known), (max(known) - min(known)) or 1.0
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in picked)


def shorten_label(text: str, length: int) -> str:
    """Leave out the middle of a long label, because variants differ at the end."""
    if len(text) <= length:
        return text
    end = (length - 1) // 2
    return f"{text[: length - 1 - end]}…{text[-end:]}"


def _render_progress(snapshot: Snapshot) -> RenderableType:
    done, total = snapshot.num_done, max(snapshot.num_rounds, 1)
    line = Table.grid(padding=(0, 1))
    line.add_row(
        Text(snapshot.title, style="bold", overflow="ellipsis", no_wrap=True),
        ProgressBar(total=total, completed=done, width=20),
        Text(f"{done / total:.0%}"),
        Text(count_finished(snapshot), no_wrap=True),
        Text(describe_time_left(snapshot.seconds_left), style="cyan", no_wrap=True),
    )
    return line


def _render_current_runs(snapshot: Snapshot) -> list[Text]:
    current = [run for run in snapshot.progress if run.state in ("running", "quiet")]
    lines = [f"  {describe_run(run)}" for run in current[:MAX_RUNS]]
    if len(current) > MAX_RUNS:
        lines.append(f"  … and {len(current) - MAX_RUNS} more")
    return [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]


def _render_validation(group: RunGroup, width: int) -> Table:
    """Return one line per strategy; its curve fills the rest of the width."""
    rows = read_latest_validation(group)
    digits = 1 if group.score.is_share else 3
    what = f"validation {group.score.title}"
    table = Table(title=what, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    clusters = _shown_clusters(group, width)
    table.add_column("strategy", no_wrap=True)
    for name in (*clusters, "all", "own cluster"):
        table.add_column(
            Text(name, overflow="ellipsis", no_wrap=True), justify="right", max_width=11
        )
    table.add_column("over rounds", no_wrap=True)
    used = 20 + sum(max(len(name[:11]), 5) + 2 for name in clusters) + 7 + 13
    for row in rows:
        values = row.per_cluster if len(clusters) == len(row.per_cluster) else _extremes(row)
        cells = [_format_value(value, digits) for value in (*values, row.all_peers)]
        fetched = "–" if row.precision is None else f"{row.precision:.0f}%"
        curve = draw_sparkline(row.curve, max(min(width - used, 24), 4))
        table.add_row(Text(shorten_label(row.label, MAX_LABEL)), *cells, fetched, curve)
    return table


def _shown_clusters(group: RunGroup, width: int) -> list[str]:
    """Return the names of the clusters; if they do not fit, "lowest" and "highest"."""
    names = list(group.cluster_names)
    needed = 20 + sum(max(len(name[:11]), 5) + 2 for name in names) + 7 + 13 + 8
    if len(names) < 2:
        return []
    return names if needed <= width else ["lowest", "highest"]


def _extremes(row: LatestValidation) -> tuple[float | None, ...]:
    if len(row.per_cluster) < 2:
        return ()
    known = [value for value in row.per_cluster if value is not None]
    return (min(known), max(known)) if known else (None, None)


def _format_value(value: float | None, digits: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _render_problems(snapshot: Snapshot) -> list[Text]:
    problems = snapshot.runs.problems
    lines = list(problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"… and {len(problems) - MAX_PROBLEMS} more problems")
    return [Text(line, style="yellow") for line in lines]


class ChangeLines:
    """One line per change, for files and pipes."""

    def __init__(self) -> None:
        self._printed_states: dict[str, tuple[int, str]] = {}
        self._printed_texts: set[str] = set()

    def describe_changes(self, snapshot: Snapshot) -> list[str]:
        """Return a line per change since the last call."""
        lines = [] if snapshot.progress else self._once(describe_wait(snapshot))
        for problem in snapshot.runs.problems:
            lines += self._once(problem)
        for run in snapshot.progress:
            now = (run.num_done, run.state)
            if run.state != "waiting" and self._printed_states.get(run.name) != now:
                self._printed_states[run.name] = now
                lines.append(self._line(run, snapshot))
        return lines

    def _once(self, text: str) -> list[str]:
        if text in self._printed_texts:
            return []
        self._printed_texts.add(text)
        return [text]

    def _line(self, run: RunProgress, snapshot: Snapshot) -> str:
        found = next((each for each in snapshot.runs if each.folder.name == run.name), None)
        parts = [describe_run(run)]
        if found is not None:
            (row,) = read_latest_validation(RunGroup((found,)))
            unit, digits = found.score.unit, 1 if found.score.is_share else 4
            parts.append(f"validation {_format_value(row.all_peers, digits)}{unit}")
            if row.precision is not None:
                parts.append(f"{row.precision:.0f}% fetched from the own cluster")
        total = f"{snapshot.num_done} of {snapshot.num_rounds} rounds in all"
        ending = (
            "finished" if run.state == "finished" else describe_time_left(snapshot.seconds_left)
        )
        return ", ".join(part for part in (*parts, total, ending) if part)
