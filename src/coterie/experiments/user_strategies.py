"""Strategies from a user's Python file.

RUN/strategy.json  the class and file of a run's strategy, if it is not one of Coterie's

A file is loaded only if the user names it, never because a run folder names it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, StorageError
from coterie.storage.files import explain_errors, write_text
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy

ORIGIN = "strategy.json"
OPTION = "--strategy-file"
StrategyClass = type[Strategy] | type[ServerStrategy]


@dataclass(frozen=True)
class Origin:
    """Where the class of a strategy is defined."""

    strategy: str
    module: str
    qualified_name: str
    file: str | None
    """None if it is not in a file, such as in a notebook."""
    sha256: str | None
    """Of the file, when the run was started."""


def origin_of(name: str) -> Origin | None:
    """Return where a strategy is defined; None for a strategy of Coterie."""
    kind = STRATEGIES[name]
    if kind.__module__.partition(".")[0] == "coterie":
        return None
    try:
        file = Path(inspect.getfile(kind)).resolve()
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError):
        return Origin(name, kind.__module__, kind.__qualname__, None, None)
    return Origin(name, kind.__module__, kind.__qualname__, str(file), digest)


def write_origin(folder: Path, name: str) -> None:
    """Write where a run's strategy is defined, unless it is one of Coterie's."""
    if origin := origin_of(name):
        write_text(folder / ORIGIN, json.dumps(asdict(origin), indent=2))


def read_origin(folder: Path) -> Origin | None:
    """Return where the strategy of a run was defined; None if this is unknown."""
    path = folder / ORIGIN
    try:
        with explain_errors(f"read {path}"):
            return TypeAdapter(Origin).validate_json(path.read_bytes())
    except (StorageError, ValidationError):
        return None


def check_known(name: str, run: Path, command: str) -> None:
    """Raise a ConfigError if a run's strategy is unknown; it says how to load it."""
    if name in STRATEGIES:
        return
    origin = read_origin(run)
    file, where = "FILE.py", "is not one of Coterie's. Name the Python file that defines it"
    if origin is not None and origin.file is not None:
        file, where = origin.file, f"is the class {origin.qualified_name} of {origin.file}"
        where += ", but this file does not exist any more" * (not Path(file).exists())
    elif origin is not None:
        where = f"is the class {origin.qualified_name} of {origin.module}, which was not in a file"
    raise ConfigError(
        f"The strategy '{name}' of {run} {where}. Type: {command} {OPTION} {shlex.quote(file)}"
    )


def check_strategies(
    strategies: Mapping[Path, str], command: str, tell: Callable[[str], None]
) -> None:
    """Raise a ConfigError for unknown strategies of runs; report files that have changed."""
    for run, name in strategies.items():
        check_known(name, run, command)
        if changed := _changed_since(name, run):
            tell(changed)


def _changed_since(name: str, run: Path) -> str | None:
    """Return a message if the file of a strategy has changed since a run was started."""
    before = read_origin(run)
    now = origin_of(name) if before else None
    if before is None or now is None or before.sha256 == now.sha256:
        return None
    return (
        f"{now.file or now.module} has changed since {run.name} was started: the earlier rounds of "
        f"this run used the older version of '{name}'."
    )


def load_strategies(files: Iterable[str] | None) -> list[str]:
    """Load the strategies of Python files, each FILE.py or FILE.py:CLASS; return their names."""
    return [name for file in files or () for name in _load(file)]


def _load(text: str) -> list[str]:
    file, _, wanted = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(file).expanduser()
    if path.suffix != ".py" or not path.is_file():
        what = "is not a Python file" if path.suffix != ".py" else "does not exist"
        raise ConfigError(f"{OPTION} {text}: {path} {what}. Give FILE.py, or FILE.py:CLASS.")
    contents = vars(_import_file(path.resolve())).values()
    found = {kind.__name__: kind for kind in contents if _is_user_strategy(kind)}
    if wanted:
        found = {name: kind for name, kind in found.items() if name == wanted}
    if not found:
        raise ConfigError(
            f"{OPTION} {text}: the file has no {f'strategy {wanted}' if wanted else 'strategy'}. A "
            "strategy is a class derived from coterie.strategies.Strategy that has a name."
        )
    for kind in found.values():
        _register(kind, text)
    return [kind.name for kind in found.values()]


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module; its folder is on the path, as with `python FILE`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{OPTION} {path}: this is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    before = sys.modules.get(path.stem)
    if before is not None and getattr(before, "__file__", None) != str(path):
        raise ConfigError(
            f"{OPTION} {path}: another module has the name {path.stem}. Rename the file."
        )
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        (*_, last) = traceback.extract_tb(error.__traceback__)
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise ConfigError(
            f"{OPTION} {path}: loading it failed in line {line}: {type(error).__name__}: {error}"
        ) from None
    return module


def _is_user_strategy(kind: object) -> bool:
    """Whether an object is a strategy class with a name that is not one of Coterie's."""
    return (
        isinstance(kind, type)
        and issubclass(kind, Strategy | ServerStrategy)
        and not inspect.isabstract(kind)
        and isinstance(getattr(kind, "name", None), str)
        and kind.__module__.partition(".")[0] != "coterie"
    )


def _register(kind: StrategyClass, text: str) -> None:
    existing = STRATEGIES.get(kind.name)
    if existing is not None and existing.__module__ != kind.__module__:
        raise ConfigError(
            f"{OPTION} {text}: another strategy has the name '{kind.name}'. Give "
            f"{kind.__name__} another name."
        )
    STRATEGIES[kind.name] = kind
