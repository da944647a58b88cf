"""Loads a Python file that the user names on the command line.

A file is loaded only if the user names it, never because a run folder names it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from coterie.errors import ConfigError


@dataclass(frozen=True)
class NamedFile:
    """FILE.py:NAME, as a user types it after an option."""

    option: str
    text: str
    path: Path
    wanted: str
    """The class or function; empty if only the file is named."""

    def load(self) -> ModuleType:
        """Import the file as a module; its folder is on the path, as with `python FILE`."""
        return _import_file(self.path.resolve(), self.option)


@dataclass(frozen=True)
class CodeOrigin:
    """Where a class or function of a user is defined."""

    module: str
    qualified_name: str
    file: str | None
    """None if it is not in a file, such as in a notebook."""
    sha256: str | None
    """Of the file, when it was loaded."""


def is_file_name(text: str) -> bool:
    """Whether a text is FILE.py or FILE.py:NAME, not the name of something known."""
    return text.partition(":")[0].endswith(".py") or ".py:" in text


def read_file_name(option: str, text: str, expected: str) -> NamedFile:
    """Return the file and the name in FILE.py:NAME; a ConfigError says what was expected."""
    file, _, wanted = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(file).expanduser()
    if path.suffix != ".py" or not path.is_file():
        what = "is not a Python file" if path.suffix != ".py" else "does not exist"
        raise ConfigError(f"{option} {text}: {path} {what}. Give {expected}.")
    return NamedFile(option, text, path, wanted)


def code_origin(defined: type | object) -> CodeOrigin:
    """Return where a class or function is defined."""
    module = str(getattr(defined, "__module__", "?"))
    name = str(getattr(defined, "__qualname__", type(defined).__name__))
    try:
        file = Path(inspect.getfile(defined)).resolve()  # type: ignore[arg-type]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except (TypeError, OSError):
        return CodeOrigin(module, name, None, None)
    return CodeOrigin(module, name, str(file), digest)


def _import_file(path: Path, option: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{option} {path}: this is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    before = sys.modules.get(path.stem)
    if before is not None and getattr(before, "__file__", None) != str(path):
        raise ConfigError(
            f"{option} {path}: another module has the name {path.stem}. Rename the file."
        )
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        (*_, last) = traceback.extract_tb(error.__traceback__)
        line = error.lineno if isinstance(error, SyntaxError) else last.lineno
        raise ConfigError(
            f"{option} {path}: loading it failed in line {line}: {type(error).__name__}: {error}"
        ) from None
    return module
