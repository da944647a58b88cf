"""What is installed is complete, also where it is not an editable installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_an_installed_package_has_its_data_files(tmp_path):
    tree, built = tmp_path / "tree", tmp_path / "built"
    shutil.copytree(ROOT / "src" / "coterie", tree / "src" / "coterie")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = f"from setuptools import setup; setup(script_args=['build_py', '-d', {str(built)!r}])"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    ask = (
        "import coterie; from coterie.experiments.published import published_tables; "
        "print(coterie.__file__, len(published_tables()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(built), "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[0] == str(built / "coterie" / "__init__.py")
    assert int(told[1]) > 10
    assert (built / "coterie" / "py.typed").exists()
    for folder in ("static", "templates"):
        source = ROOT / "src" / "coterie" / "reports" / "html" / folder
        assert {each.name for each in source.iterdir()} == {
            each.name for each in (built / "coterie" / "reports" / "html" / folder).iterdir()
        }
