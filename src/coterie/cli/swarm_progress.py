"""The progress of a swarm: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coterie.cli.progress import LINE_SECONDS
from coterie.experiments.run_folder import RunFolder
from coterie.peer.peer_run import PeerStatus
from coterie.reports.live.progress_text import describe_time_left
from coterie.swarm.supervisor import SwarmPeer

NUM_OTHER_LINES = 5
"""The lines of the screen above and below the peers."""
FEWEST_ROWS = 4
Seen = tuple[SwarmPeer, PeerStatus | None]


class SwarmProgress:
    """Shows the peers of the current run."""

    def __init__(self, runs: Sequence[RunFolder], console: Console) -> None:
        self._console = console
        self._runs = runs
        self._num_ended = sum(run.read_summary() is not None for run in runs)
        self._done_before: float | None = None
        """The work done before this session, in runs."""
        self._started = self._last_line = time.monotonic()
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> SwarmProgress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def tell(self, message: str) -> None:
        """Print a message above the table."""
        self._console.print(message, soft_wrap=True, highlight=False, markup=False)

    def end(self, run: RunFolder) -> None:
        """Count a run that has ended."""
        self._num_ended += 1

    def show(self, run: RunFolder, peers: Sequence[SwarmPeer]) -> None:
        """Show the peers of a run; without a terminal, as a line every few seconds."""
        if not self._console.is_terminal and time.monotonic() - self._last_line < LINE_SECONDS:
            return
        seen = [(peer, peer.status) for peer in peers]
        left = self._seconds_left(run, seen)
        if self._console.is_terminal:
            self._live.update(self._screen(run, seen, left), refresh=True)
            return
        self._last_line = time.monotonic()
        self.tell(", ".join(part for part in (_line(run, seen), self._runs_done(), left) if part))

    def _screen(self, run: RunFolder, seen: Sequence[Seen], left: str) -> RenderableType:
        title = ", ".join(part for part in (_line(run, seen), self._runs_done()) if part)
        head = Text.assemble((title, "bold"), "  ", (left, "cyan"))
        num_rows = max(self._console.height - NUM_OTHER_LINES, FEWEST_ROWS)
        parts: list[RenderableType] = [head, table(seen[:num_rows])]
        if len(seen) > num_rows:
            parts.append(Text(f"… and {len(seen) - num_rows} more"))
        return Group(*parts)

    def _runs_done(self) -> str:
        if len(self._runs) == 1:
            return ""
        return f"{self._num_ended} of {len(self._runs)} runs done"

    def _seconds_left(self, run: RunFolder, seen: Sequence[Seen]) -> str:
        """Return the estimated remaining time; later runs are assumed to take as long."""
        rounds = [0 if status is None else status.round + 1 for _, status in seen]
        done = self._num_ended + sum(rounds) / (len(rounds) * (run.config.rounds + 1))
        if self._done_before is None:
            self._done_before, self._started = done, time.monotonic()
        if done == self._done_before:
            return ""
        speed = (done - self._done_before) / (time.monotonic() - self._started)
        return describe_time_left((len(self._runs) - done) / speed)


def table(seen: Sequence[Seen]) -> Table:
    """Return a table with one line per peer."""
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("peer", "state"):
        lines.add_column(name, no_wrap=True)
    for name in ("round", "validation", "fetched", "reachable", "refused", "not received"):
        lines.add_column(name, justify="right", no_wrap=True)
    for peer, status in seen:
        lines.add_row(peer.name, _state(peer, status), *_progress(status))
    return lines


def _state(peer: SwarmPeer, status: PeerStatus | None) -> Text:
    if peer.error is not None:
        return Text("failed", style="red")
    state = "starting" if status is None else status.state
    if peer.num_restarts:
        return Text(f"{state}, restarted {peer.num_restarts}×", style="yellow")
    return Text(state, style="green" if state == "finished" else "")


def _progress(status: PeerStatus | None) -> list[str]:
    if status is None or status.round < 0:
        return [""] * 6
    return [
        str(status.round),
        _validation(status),
        str(status.num_fetched),
        str(status.num_known),
        str(sum(status.refused.values()) or ""),
        str(sum(status.failures.values()) or ""),
    ]


def _validation(status: PeerStatus) -> str:
    if status.validation_score is None:
        return ""
    return status.score.format(status.validation_score)


def _line(run: RunFolder, seen: Sequence[Seen]) -> str:
    """Return the rounds of the peers and their mean score."""
    known = [status for _, status in seen if status is not None and status.round >= 0]
    if not known:
        return f"{run.folder.name}: {len(seen)} peers are starting"
    first, last = (pick(status.round for status in known) for pick in (min, max))
    rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
    scores = [each.validation_score for each in known if each.validation_score is not None]
    mean = ""
    if scores:
        score = known[0].score
        mean = f", validation {score.name} {score.format(sum(scores) / len(scores))}"
    return f"{run.folder.name}: {len(seen)} peers in {rounds} of {run.config.rounds}{mean}"
