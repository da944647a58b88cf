"""What became of runs that failed: one message for all of them."""

from __future__ import annotations

import shlex
from pathlib import Path

from coterie.errors import CoterieError, StorageError, WorkerDied

MAX_SHOWN = 5
"""How many failures are told in full."""


class Failures:
    """Collects the failures of an experiment's runs; some mean that nothing more is started."""

    def __init__(self, folder: Path, num_runs: int, num_waiting: int) -> None:
        self._folder = folder
        self._num_runs = num_runs
        self._num_waiting = num_waiting
        self._errors: dict[str, BaseException] = {}
        self.num_started = 0

    @property
    def num_not_started(self) -> int:
        """How many runs were left for later."""
        return self._num_waiting - self.num_started

    @property
    def concern_all(self) -> bool:
        """Whether something is wrong that other runs would meet as well."""
        own = (StorageError, WorkerDied)
        return any(
            isinstance(error, own) or not isinstance(error, CoterieError)
            for error in self._errors.values()
        )

    def add(self, name: str, error: BaseException) -> None:
        """Take note of a run that failed."""
        self._errors[name] = error

    def explain(self, error: BaseException) -> None:
        """Let something else that is raised tell of the failures as well."""
        if self._errors:
            error.add_note(self._text())

    def raise_any(self) -> None:
        """Raise one error for all failures, if there are any; its kind is that of the first."""
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
        told = [f"{name}: {error}" for name, error in self._errors.items()]
        if len(told) == 1:
            return told[0]
        more = f"\n… and {len(told) - MAX_SHOWN} more." if len(told) > MAX_SHOWN else ""
        return f"{len(told)} runs failed.\n" + "\n".join(told[:MAX_SHOWN]) + more


def resume_command(folder: Path) -> str:
    """Return what to type to continue an experiment."""
    return shlex.join(["coterie", "resume", str(folder)])


def how_to_continue(folder: Path) -> str:
    """Return the sentence that says how to continue an experiment."""
    return f"Continue with: {resume_command(folder)}"
