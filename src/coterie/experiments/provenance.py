"""How a run was started: when, by which command, with which version of Coterie.

RUN/started.json holds the time and the command; the version stands in software.json.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from coterie.errors import StorageError
from coterie.storage.files import explain_errors, write_text

STARTED, SOFTWARE = "started.json", "software.json"
PACKAGES = (
    "coterie",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "safetensors",
    "pillow",
)
"""What can change results."""
_AS_MODULE = ("coterie", "__main__.py")
"""The end of the path of the program that `python -m coterie` runs."""


@dataclass(frozen=True)
class Start:
    """What is known about how a run was started."""

    at: datetime | None = None
    """In UTC; None for older runs, which did not record it."""
    command: tuple[str, ...] = ()
    """As given; empty for older runs, and for runs that were started from Python."""
    version: str | None = None
    """Of Coterie."""


UNKNOWN = Start()


def command_given() -> tuple[str, ...]:
    """Return the command line of this process; nothing if it is not that of Coterie."""
    program = Path(sys.argv[0] if sys.argv else "")
    is_coterie = program.stem == "coterie" or program.parts[-2:] == _AS_MODULE
    return ("coterie", *sys.argv[1:]) if is_coterie else ()


def software_versions() -> dict[str, str]:
    """Return the versions of everything that can change results."""
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **versions}


def write_start(folder: Path) -> None:
    """Record in the folder of a run that it is started now, and by which command."""
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    start = {"at": f"{now.isoformat()}Z", "command": list(command_given())}
    write_text(folder / STARTED, json.dumps(start, indent=2, ensure_ascii=False))


def read_start(folder: Path) -> Start:
    """Return how a run was started; of older runs only the version is known."""
    version = _object(folder / SOFTWARE).get("coterie")
    start = _object(folder / STARTED)
    try:
        at = datetime.fromisoformat(start["at"]).astimezone(UTC) if start else None
        command = start.get("command", [])
        if not isinstance(command, list):
            raise TypeError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _damaged(folder / STARTED) from None
    return Start(at, tuple(map(str, command)), version if isinstance(version, str) else None)


def _object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; nothing if there is no such file."""
    with explain_errors(f"read {path}"):
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise _damaged(path) from None
    if not isinstance(found, dict):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> StorageError:
    return StorageError(
        f"{path} is damaged, so it is not known how the run was started. Its results are not "
        "affected; delete the file to be told no more."
    )
