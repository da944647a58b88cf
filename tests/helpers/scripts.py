"""The scripts in tools/, which write pages and are no package."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from pages import ROOT

TOOLS = ROOT / "tools"


def script(name: str) -> ModuleType:
    """Return a script of tools/ as a module; like Python, let it import what lies beside it."""
    if str(TOOLS) not in sys.path:
        sys.path.insert(0, str(TOOLS))
    return importlib.import_module(name)
