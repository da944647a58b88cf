"""What is learned: the loss that is minimised, and the score that says how well it was learned."""

from coterie.tasks.score import Score
from coterie.tasks.task import Task, task_for
from coterie.tasks.task_settings import TaskSettings

__all__ = ["Score", "Task", "TaskSettings", "task_for"]
