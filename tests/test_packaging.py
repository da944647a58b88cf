"""What is installed is complete, also where it is not an editable installation."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
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
    printed = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert printed[0] == str(built / "coterie" / "__init__.py")
    assert int(printed[1]) > 10
    assert (built / "coterie" / "py.typed").exists()
    for folder in ("static", "templates"):
        source = ROOT / "src" / "coterie" / "reports" / "html" / folder
        assert {each.name for each in source.iterdir()} == {
            each.name for each in (built / "coterie" / "reports" / "html" / folder).iterdir()
        }


def declared(*extras: str) -> set[str]:
    """Return the names of the packages that users get, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    return {canonical(re.match(r"[\w.-]+", line)[0]) for line in wanted}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(file: Path) -> set[str]:
    """Return the packages that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_what_is_imported_is_among_the_dependencies():
    """Development installs more, so that a missing dependency would not be noticed otherwise."""
    available, makers = declared("tensorboard", "prometheus", "ray"), packages_distributions()
    for file in sorted((ROOT / "src").rglob("*.py")):
        for name in imported(file) - sys.stdlib_module_names - {"coterie"}:
            assert {canonical(maker) for maker in makers.get(name, [])} & available, (file, name)
