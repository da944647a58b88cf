"""When the runs of a page were started, by which commands and versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath

from coterie.experiments.provenance import Start
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import Json

MAX_COMMANDS = 4
"""Maximum number of commands shown; a study has many."""
_ABSOLUTE = re.compile(
    r"""(?:^|(?<=^-\w)|(?<=[=,:{\['" ]))(?:/|~/|[A-Za-z]:[\\/]|\\\\)[^,\]}'"]*"""
)


def describe_origin(group: RunGroup) -> list[Json]:
    """Return a sentence and the command, or None, for each command; the first one first."""
    by_command: dict[tuple[bool, tuple[str, ...]], list[Start]] = {}
    for run in group.runs:
        start = run.start
        by_command.setdefault((start.at is None, start.command), []).append(start)
    lines: list[Json] = [
        {
            "text": _when(group.config.preset, starts),
            "command": shorten_paths(starts[0].command) or None,
        }
        for starts in sorted(by_command.values(), key=_earliest)
    ]
    more = len(lines) - MAX_COMMANDS
    if more > 0:
        ending = "command" if more == 1 else "commands"
        text = f"Runs of {more} more {ending} are not listed."
        lines = [*lines[:MAX_COMMANDS], {"text": text, "command": None}]
    return lines


def shorten_paths(command: Sequence[str]) -> str:
    """Return a command with only the last part of each path, because pages are for other people."""
    return shlex.join(_ABSOLUTE.sub(_last_part, each) for each in command)


def _last_part(path: re.Match[str]) -> str:
    text = path[0].rstrip("/\\")
    pure = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    return f".../{pure.name}" if pure.name else path[0]


def _when(preset: str, starts: Sequence[Start]) -> str:
    """Return a sentence: when and with which version runs were started."""
    versions = _join_versions(start.version for start in starts)
    made = f"Coterie {versions}" if versions else "an unknown version of Coterie"
    times = sorted(start.at for start in starts if start.at is not None)
    if not times:
        return f"Preset {preset}, run with {made}; the date and the command were not recorded."
    how = ", by this command:" if starts[0].command else ", from Python."
    return f"Preset {preset}, started {_span(times[0], times[-1])} with {made}{how}"


def _span(first: datetime, last: datetime) -> str:
    """Return one time to the minute, or two dates."""
    if first.date() != last.date():
        return f"from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"on {first:%Y-%m-%d} at {first:%H:%M} UTC"


def _earliest(starts: Iterable[Start]) -> str:
    """Return a sort key: the first time, with unknown times first."""
    return min((start.at.isoformat() if start.at else "") for start in starts)


def _join_versions(versions: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(version for version in versions if version))
