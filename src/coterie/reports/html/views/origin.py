"""What the runs of a page were made with: when they were started, and by which commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath

from coterie.experiments.provenance import RunStart
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import Json

MAX_COMMANDS = 4
"""How many commands are shown; a study has many."""
_ABSOLUTE = re.compile(
    r"""(?:^|(?<=^-\w)|(?<=[=,:{\['" ]))(?:/|~/|[A-Za-z]:[\\/]|\\\\)[^,\]}'"]*"""
)


def origin(subject: Subject) -> list[Json]:
    """Return for each command, the first one first: a sentence, and the command or None."""
    together: dict[tuple[bool, tuple[str, ...]], list[RunStart]] = {}
    for run in subject.runs:
        start = run.start
        together.setdefault((start.at is None, start.command), []).append(start)
    told: list[Json] = [
        {
            "text": _when(subject.config.preset, starts),
            "command": shown_command(starts[0].command) or None,
        }
        for starts in sorted(together.values(), key=_earliest)
    ]
    more = len(told) - MAX_COMMANDS
    if more > 0:
        ending = "command" if more == 1 else "commands"
        told = [*told[:MAX_COMMANDS], {"text": f"And by {more} more {ending}.", "command": None}]
    return told


def shown_command(command: Sequence[str]) -> str:
    """Return a command for other people: of a path on our disk only the last part."""
    return shlex.join(_ABSOLUTE.sub(_last_part, each) for each in command)


def _last_part(path: re.Match[str]) -> str:
    text = path[0].rstrip("/\\")
    pure = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    return f".../{pure.name}" if pure.name else path[0]


def _when(preset: str, starts: Sequence[RunStart]) -> str:
    """Say when runs were started, and what of it is not known."""
    versions = _listed(start.version for start in starts)
    made = f"Coterie {versions}" if versions else "an unknown version of Coterie"
    times = sorted(start.at for start in starts if start.at is not None)
    if not times:
        return f"Preset {preset}, run with {made}; the date and the command were not recorded."
    how = ", by this command:" if starts[0].command else ", from Python."
    return f"Preset {preset}, started {_span(times[0], times[-1])} with {made}{how}"


def _span(first: datetime, last: datetime) -> str:
    """Write one time to the minute, or two days."""
    if first.date() != last.date():
        return f"from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"on {first:%Y-%m-%d} at {first:%H:%M} UTC"


def _earliest(starts: Iterable[RunStart]) -> str:
    """Return what sorts starts by time, those of unknown time first."""
    return min((start.at.isoformat() if start.at else "") for start in starts)


def _listed(versions: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(version for version in versions if version))
