"""What is learned: the loss that is minimised, and the score that says how well it was learned."""

from coterie.tasks.score import TaskScore
from coterie.tasks.task import Task, task_for
from coterie.tasks.task_settings import TaskSettings

__all__ = ["Task", "TaskScore", "TaskSettings", "task_for"]
