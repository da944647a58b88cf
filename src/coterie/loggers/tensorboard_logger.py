"""Logs to TensorBoard event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.loggers.logger import Logger, import_or_explain
from coterie.storage.files import explain_errors

EVENTS = "tensorboard"
"""The folder of the event files in the folder of a run."""


class TensorBoardLogger(Logger):
    """Writes event files.

    Parameters
    ----------
    folder
        The folder of the event files; by default `tensorboard` in the folder of the run, or
        `runs/NAME` if it has none.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self._writers = import_or_explain("tensorboardX", "TensorBoard", "tensorboard")
        self._folder = folder
        self._writer: Any = None

    def start(self, name: str, settings: Mapping[str, Any], folder: Path | None) -> None:
        """Open the event file."""
        target = Path(self._folder or (folder / EVENTS if folder else Path("runs") / name))
        with explain_errors(f"write to {target}"):
            self._writer = self._writers.SummaryWriter(str(target))

    def log(self, round_number: int, means: Mapping[str, float]) -> None:
        """Write the means as scalars."""
        for name, value in means.items():
            self._writer.add_scalar(name, value, round_number)

    def finish(self, *, is_complete: bool) -> None:
        """Close the event file."""
        self._writer.close()
