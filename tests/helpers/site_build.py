"""Building the documentation site as `make docs` does."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT


def build_site(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages of a folder with the options of the Makefile; skip without the docs extra."""
    needed = ("sphinx", "myst_parser", "furo")
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        pytest.skip(f"no {', '.join(missing)}: pip install 'coterie[docs]', as `make test` does")
    recipe = re.search(r"sphinx-build (.+) -d build/doctrees", (ROOT / "Makefile").read_text())
    assert recipe
    folders = ("-d", str(folder / "doctrees"), str(source), str(folder / "site"))
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *shlex.split(recipe[1]), *folders],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
