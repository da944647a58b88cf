"""Models and tasks from a user's Python file: FILE.py:NAME.

RUN/model.json, RUN/task.json  the name and the file of those that are not Coterie's

A file is loaded only if the user names it, never because a run folder names it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, StorageError
from coterie.experiments.user_code import CodeOrigin, code_origin
from coterie.storage.files import explain_errors, write_text


@dataclass(frozen=True)
class UserObjects:
    """One kind of objects that users define in files."""

    kind: str
    """Such as "model"."""
    option: str
    known: Mapping[str, Any]
    """The loaded objects by their names, FILE.py:NAME."""

    def write_origin(self, folder: Path, name: str | None) -> None:
        """Write where an object of a run is defined, unless it is one of Coterie's."""
        if name is not None and name in self.known:
            origin = asdict(code_origin(self.known[name]))
            write_text(folder / f"{self.kind}.json", json.dumps(origin, indent=2))

    def check_known(self, name: str | None, run: Path, command: str) -> None:
        """Raise a ConfigError if an object of a run was not loaded; it says how to load it."""
        if name is None or ".py:" not in name or name in self.known:
            return
        origin = self._read_origin(run)
        file, _, wanted = name.partition(":")
        file = file if origin is None or origin.file is None else origin.file
        gone = "" if Path(file).exists() else ", which does not exist any more"
        raise ConfigError(
            f"The {self.kind} of {run} is {wanted} of {file}{gone}. Type: {command} {self.option} "
            f"{shlex.quote(f'{file}:{wanted}')}"
        )

    def report_changed(self, name: str | None, run: Path, tell: Callable[[str], None]) -> None:
        """Report that the file of an object has changed since a run was started."""
        before = self._read_origin(run)
        if before is None or name is None or name not in self.known:
            return
        now = code_origin(self.known[name])
        if before.sha256 != now.sha256:
            tell(
                f"{now.file} has changed since {run.name} was started: its {self.kind} may differ."
            )

    def _read_origin(self, run: Path) -> CodeOrigin | None:
        path = run / f"{self.kind}.json"
        try:
            with explain_errors(f"read {path}"):
                return TypeAdapter(CodeOrigin).validate_json(path.read_bytes())
        except (StorageError, ValidationError):
            return None
