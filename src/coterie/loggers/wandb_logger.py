"""Logs to Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.loggers.logger import Logger, flat_settings, import_or_explain


class WandbLogger(Logger):
    """Logs to Weights & Biases, as the environment says (WANDB_MODE=offline writes files).

    Parameters
    ----------
    project
        The name of the project.
    **options
        Further arguments of `wandb.init`, such as entity or tags.
    """

    def __init__(self, project: str = "coterie", **options: Any) -> None:
        self._wandb = import_or_explain("wandb", "Weights & Biases", "wandb")
        self._options = {"project": project, **options}
        self._run: Any = None

    def start(self, name: str, settings: Mapping[str, Any], folder: Path | None) -> None:
        """Begin a run; several may be open at the same time."""
        where = {} if folder is None else {"dir": str(folder)}
        self._run = self._wandb.init(
            **{"name": name, "config": flat_settings(settings), "reinit": "create_new"}
            | where
            | self._options
        )

    def log(self, round_number: int, means: Mapping[str, float]) -> None:
        """Log the means with the round as step."""
        self._run.log(dict(means), step=round_number)

    def finish(self, *, is_complete: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=0 if is_complete else 1)
