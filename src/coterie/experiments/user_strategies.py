"""Strategies from a user's Python file, or from an installed package.

RUN/strategy.json  the class and file of a run's strategy, if it is not one of Coterie's

A file is loaded only if the user names it, never because a run folder names it. A package makes its
strategies known by entry points of the group `coterie.strategies`.
"""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, StorageError
from coterie.experiments.user_code import CodeOrigin, code_origin, is_file_name, read_file_name
from coterie.storage.files import explain_errors, write_text
from coterie.strategies import STRATEGIES
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy

ORIGIN = "strategy.json"
OPTION = "--strategy-file"
ENTRY_POINTS = "coterie.strategies"
"""The group of entry points by which a package makes strategies known."""
StrategyClass = type[Strategy] | type[ServerStrategy]


@dataclass(frozen=True, kw_only=True)
class Origin(CodeOrigin):
    """Where the class of a strategy is defined."""

    strategy: str


def origin_of(name: str) -> Origin | None:
    """Return where a strategy is defined; None for a strategy of Coterie."""
    kind = STRATEGIES[name]
    if kind.__module__.partition(".")[0] == "coterie":
        return None
    return Origin(strategy=name, **asdict(code_origin(kind)))


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


def load_named(labels: Iterable[str]) -> list[str]:
    """Return the names of strategies; those given as FILE.py or FILE.py:CLASS are loaded."""
    return [name for label in labels for name in (_load(label) if is_file_name(label) else [label])]


def load_installed(tell: Callable[[str], None]) -> None:
    """Load the strategies of installed packages; report those that cannot be loaded."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            kind = point.load()
            if not _is_user_strategy(kind):
                raise TypeError(f"{point.value} is not a strategy class with a name")
            _register(kind, point.value)
        except Exception as error:  # whatever the code of another package raises
            tell(f"The strategy '{point.name}' of {point.value} cannot be loaded: {error}")


def _load(text: str) -> list[str]:
    named = read_file_name(OPTION, text, "FILE.py, or FILE.py:CLASS")
    contents, wanted = vars(named.load()).values(), named.wanted
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
