"""Tasks from a user's Python file: FILE.py:NAME of a Task, or of a function that returns one."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.experiments.user_code import read_file_name
from coterie.experiments.user_objects import UserObjects
from coterie.tasks import Task
from coterie.tasks.task_settings import DEFINED_IN, OWN_TASKS

OPTION = "--task"
EXPECTED = "FILE.py:NAME"
USER_TASKS = UserObjects("task", OPTION, DEFINED_IN)


def load_task(text: str) -> str:
    """Load a task and return its name."""
    if ".py" not in text:
        raise ConfigError(
            f"{OPTION} {text}: give {EXPECTED}. For a loss or score by name use --set "
            "task.loss=NAME or --set task.score=NAME."
        )
    named = read_file_name(OPTION, text, EXPECTED)
    module = named.load()
    if not named.wanted:
        raise ConfigError(f"{OPTION} {text}: name the task: {text}:NAME.")
    found = vars(module).get(named.wanted)
    made = found() if callable(found) and not isinstance(found, type) else found
    if not isinstance(made, Task):
        what = "no" if found is None else "no coterie.Task, nor a function that returns one, as"
        raise ConfigError(f"{OPTION} {text}: the file has {what} '{named.wanted}'.")
    name = f"{named.path.name}:{named.wanted}"
    OWN_TASKS[name] = made
    # A task itself does not know its file, but its module does.
    DEFINED_IN[name] = found if callable(found) else module
    return name
