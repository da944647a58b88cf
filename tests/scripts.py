"""The scripts beside the pages, which are no package."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from pages import ROOT


def script(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
