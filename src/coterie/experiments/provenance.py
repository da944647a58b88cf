"""How a run was started: when, by which command, with which version of Coterie.

RUN/started.json   the time and the command
RUN/software.json  the versions
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
"""The packages that can change results."""
_AS_MODULE = ("coterie", "__main__.py")
"""The end of the path of the program for `python -m coterie`."""


@dataclass(frozen=True)
class RunStart:
    """How a run was started, as far as it is known."""

    at: datetime | None = None
    """In UTC; None for older runs, which did not record it."""
    command: tuple[str, ...] = ()
    """Empty for older runs, and for runs that were started from Python."""
    version: str | None = None
    """The version of Coterie."""


UNKNOWN_START = RunStart()


def given_command() -> tuple[str, ...]:
    """Return the command line of this process; empty if it is not the command coterie."""
    program = Path(sys.argv[0] if sys.argv else "")
    is_coterie = program.stem == "coterie" or program.parts[-2:] == _AS_MODULE
    return ("coterie", *sys.argv[1:]) if is_coterie else ()


def software_versions() -> dict[str, str]:
    """Return the versions of the software that can change results."""
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **versions}


def write_start(folder: Path) -> None:
    """Write the current time and command into the folder of a run."""
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    start = {"at": f"{now.isoformat()}Z", "command": list(given_command())}
    write_text(folder / STARTED, json.dumps(start, indent=2, ensure_ascii=False))


def read_start(folder: Path) -> RunStart:
    """Return how a run was started; for older runs only the version is known."""
    version = _read_object(folder / SOFTWARE).get("coterie")
    start = _read_object(folder / STARTED)
    try:
        at = datetime.fromisoformat(start["at"]).astimezone(UTC) if start else None
        command = start.get("command", [])
        if not isinstance(command, list):
            raise TypeError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _damaged(folder / STARTED) from None
    return RunStart(at, tuple(map(str, command)), version if isinstance(version, str) else None)


def _read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file does not exist."""
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
        f"{path} is damaged, so it is unknown how the run was started. The results are not "
        "affected. Delete the file to stop this message."
    )
