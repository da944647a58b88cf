"""A user's own Python files, sent as text to the nodes that run them."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig
from coterie.experiments.user_code import is_file_name
from coterie.experiments.user_models import USER_MODELS, load_model
from coterie.experiments.user_strategies import (
    ENTRY_POINTS,
    load_installed,
    load_strategies,
    origin_of,
)
from coterie.experiments.user_tasks import USER_TASKS, load_task
from coterie.storage.files import explain_errors, make_folder, write_bytes
from coterie.strategies import STRATEGIES

_INSTALLED = ("site-packages", "dist-packages")
_loaded: set[str] = set()
"""The digests of the files that this process has loaded."""


@dataclass(frozen=True)
class SourceFiles:
    """The files that define the strategy, the model and the task of a run, if they are a user's."""

    contents: tuple[tuple[str, bytes], ...] = ()
    """Each file by its path below the folder where it is put on a node."""
    strategy: str | None = None
    """The file to load the strategy from."""
    installed_strategy: str | None = None
    """The name of a strategy that an installed package defines."""
    model: str | None = None
    """FILE.py:FUNCTION"""
    task: str | None = None
    """FILE.py:NAME"""

    def load(self, folder: Path) -> None:
        """Write the files below a folder and load them, once in a process."""
        if self.installed_strategy is not None and self.installed_strategy not in STRATEGIES:
            self._load_installed(self.installed_strategy)
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        if digest in _loaded or not self.contents:
            return
        place = folder / f"code-{digest}"
        for name, content in self.contents:
            make_folder((place / name).parent)
            write_bytes(place / name, content, durable=False)
        if self.strategy is not None:
            load_strategies([str(place / self.strategy)])
        if self.model is not None:
            load_model(str(place / self.model))
        if self.task is not None:
            load_task(str(place / self.task))
        _loaded.add(digest)

    def _load_installed(self, name: str) -> None:
        problems: list[str] = []
        load_installed(problems.append)
        if name not in STRATEGIES:
            raise ConfigError(
                f"The strategy '{name}' is not installed on this node. Install its package on all "
                f"nodes. {' '.join(problems)}".rstrip()
            )


def collect_source_files(config: RunConfig) -> SourceFiles:
    """Return the loaded files of a user that a run needs, and the modules beside them."""
    collected = _Collected()
    strategy = installed = None
    origin = origin_of(config.strategy["name"])
    if origin is not None and _is_installed(origin.module):
        installed = origin.strategy
    elif origin is not None:
        strategy = collected.add(origin.module, f"The strategy '{origin.strategy}'")
    model, task = config.model.name, config.task.file
    return SourceFiles(
        strategy=strategy,
        installed_strategy=installed,
        model=collected.add_object("model", model) if model in USER_MODELS.known else None,
        task=collected.add_object("task", task) if task in USER_TASKS.known and task else None,
        contents=tuple(sorted(collected.contents.items())),
    )


class _Collected:
    """Files of one or several folders; each folder is put beside the others."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self._folders: list[Path] = []

    def add_object(self, kind: str, name: str) -> str:
        """Add the file of FILE.py:NAME; return FILE.py:NAME for the node."""
        file, _, wanted = name.partition(":")
        if not is_file_name(name):
            raise _not_in_a_file(f"The {kind} '{name}'")
        return f"{self.add(Path(file).stem, f'The {kind} {name}')}:{wanted}"

    def add(self, module_name: str, what: str) -> str:
        """Add a module's file and the modules beside it; return its path for the node."""
        file = _file_of(sys.modules.get(module_name))
        if module_name == "__main__" or file is None:
            raise _not_in_a_file(what)
        folder = file.parent
        if folder not in self._folders:
            self._folders.append(folder)
            for each in sorted(_loaded_below(folder)):
                with explain_errors(f"read {each}"):
                    self.contents[self._name(each, folder)] = each.read_bytes()
        return self._name(file, folder)

    def _name(self, file: Path, folder: Path) -> str:
        return f"{self._folders.index(folder)}/{file.relative_to(folder).as_posix()}"


def _not_in_a_file(what: str) -> ConfigError:
    return ConfigError(
        f"{what} is not defined in a file, so it cannot be sent to the nodes of a cluster. Put it "
        "into a Python file of its own."
    )


def _is_installed(module: str) -> bool:
    """Whether an installed package makes the strategies of a module known."""
    return any(
        point.value.partition(":")[0] == module for point in entry_points(group=ENTRY_POINTS)
    )


def _loaded_below(folder: Path) -> set[Path]:
    """Return the files of the user's own modules that were loaded from a folder."""
    files = {_file_of(module) for module in list(sys.modules.values())}
    return {file for file in files if file and file.is_relative_to(folder) and _is_own(file)}


def _file_of(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if name and name.endswith(".py") else None


def _is_own(file: Path) -> bool:
    """Whether a file belongs to the user, not to Python, a package or Coterie."""
    others = {Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]}
    return not any(file.is_relative_to(other.resolve()) for other in others) and not (
        {*file.parts} & {*_INSTALLED}
    )
