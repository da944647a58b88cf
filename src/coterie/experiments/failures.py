"""One error message for all runs of an experiment that failed."""

from __future__ import annotations

import shlex
from pathlib import Path

from coterie.errors import CoterieError, StorageError, WorkerDied

MAX_SHOWN = 5
"""How many failures are shown in full."""


class Failures:
    """Collects the errors of an experiment's runs."""

    def __init__(self, folder: Path, num_runs: int, num_waiting: int) -> None:
        self._folder = folder
        self._num_runs = num_runs
        self._num_waiting = num_waiting
        self._errors: dict[str, BaseException] = {}
        self.num_started = 0

    @property
    def num_not_started(self) -> int:
        """The number of runs that were not started."""
        return self._num_waiting - self.num_started

    @property
    def should_skip_rest(self) -> bool:
        """Whether other runs would fail for the same reason, such as a full disk."""
        general = (StorageError, WorkerDied)
        return any(
            isinstance(error, general) or not isinstance(error, CoterieError)
            for error in self._errors.values()
        )

    def add(self, name: str, error: BaseException) -> None:
        """Record the error of a run."""
        self._errors[name] = error

    def explain(self, error: BaseException) -> None:
        """Add the failures as a note to another error."""
        if self._errors:
            error.add_note(self._text())

    def raise_any(self) -> None:
        """Raise one error for all failures, if any; its class is that of the first."""
        if not self._errors:
            return
        first = next(iter(self._errors.values()))
        if self._num_runs == 1:
            raise first
        raised = type(first)(self._text())
        notes = [note for e in self._errors.values() for note in getattr(e, "__notes__", [])]
        if self.num_not_started:
            raised.add_note(f"{self.num_not_started} other runs were not started.")
            notes.append(how_to_continue(self._folder))
        for note in dict.fromkeys(notes):
            raised.add_note(note)
        raise raised from None

    def _text(self) -> str:
        lines = [f"{name}: {error}" for name, error in self._errors.items()]
        if len(lines) == 1:
            return lines[0]
        more = f"\n… and {len(lines) - MAX_SHOWN} more." if len(lines) > MAX_SHOWN else ""
        return f"{len(lines)} runs failed.\n" + "\n".join(lines[:MAX_SHOWN]) + more


def resume_command(folder: Path) -> str:
    """Return the command that continues an experiment."""
    return shlex.join(["coterie", "resume", str(folder)])


def how_to_continue(folder: Path) -> str:
    """Return a sentence with the command that continues an experiment."""
    return f"Continue with: {resume_command(folder)}"
