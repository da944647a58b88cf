"""The settings of a task."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from coterie.errors import ConfigError
from coterie.settings import Settings
from coterie.tasks.loss_names import LossName
from coterie.tasks.task import Task

ScoreName: TypeAlias = Literal["accuracy", "auc", "f1", "r2", "mse", "rmse", "mae", "loss"]


OWN_TASKS: dict[str, Task] = {}
"""Tasks of users' own files by name, FILE.py:NAME; see `experiments/user_tasks.py`."""
DEFINED_IN: dict[str, Any] = {}
"""The functions or modules that define these tasks."""


class TaskSettings(Settings):
    """What models are trained for, and how they are compared."""

    file: str | None = None
    """A task of your own, as FILE.py:NAME; `--task` loads it."""
    loss: LossName | None = None
    """The loss that training minimises. When not given: cross-entropy for classes, bce for several
    labels that are 0 or 1, mse for values."""
    score: ScoreName | None = None
    """The number by which models are compared. When not given: accuracy for classes and labels, the
    error for values."""
    metrics: tuple[ScoreName, ...] = ()
    """Further scores, which are computed in tests."""

    def make(self, suggested: Task) -> Task:
        """Return the task; `suggested` by the data are the values that are not given."""
        if self == TaskSettings():
            return suggested
        if self.file is not None:
            if self.file not in OWN_TASKS:
                raise ConfigError(
                    f"task.file = {self.file}: this task is not loaded. Type: --task {self.file}"
                )
            return OWN_TASKS[self.file]
        same = None if self.loss else suggested.score_argument
        return Task(
            self.loss or suggested.loss, self.score or same, self.metrics, unit=suggested.unit
        )
