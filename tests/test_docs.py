"""The pages are true: their code runs, their commands exist, their links lead somewhere.

A block of Python that begins with `# name.py` is a file, one named test_*.py a test of it; the
other blocks of a page are run in order, beside its files. What they print is compared with the
numbers in comments such as `# about 0.76`. A block below `<!-- not run: why -->` is left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES, ROOT, blocks, commands, links, named
from typer.main import get_command

from coterie.cli import app
from coterie.config import parse_change
from coterie.presets import find_preset

NEW_STRATEGY = ROOT / "docs" / "add-a-strategy.md"
COMMANDS = get_command(app).commands


def write_files(page: Path, folder: Path) -> list[str]:
    """Write the files of a page; return their names."""
    files = {block.file: block.text for block in blocks(page, "python") if block.file}
    for name, text in files.items():
        (folder / name).write_text(text)
    return list(files)


def python(folder: Path, *arguments: str, cwd: Path | None = None) -> str:
    """Run Python beside the files of a page, without warnings; return what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=named)
def test_python_runs_and_prints_what_it_says(page, tmp_path):
    for name in write_files(page, tmp_path):
        if name.startswith("test_"):
            assert "1 passed" in python(tmp_path, "-m", "pytest", "-p", "no:xdist", name)
    for block in blocks(page, "python"):
        if not block.file:
            printed = re.findall(r"\d+\.\d+", python(tmp_path, "-W", "error", "-c", block.text))
            assert [float(number) for number in printed] == pytest.approx(block.promised, abs=0.04)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_exist(page):
    for words in commands(page):
        match words:
            case ["coterie", command, *arguments]:
                check_command(command, arguments)
            case ["make", target, *_]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            case [_, script, *_] if "/" in script:
                assert (ROOT / script).exists(), script


def check_command(command: str, arguments: list[str]) -> None:
    """Check that a command has all these options, and that an experiment can be made so."""
    assert command in COMMANDS
    if not arguments:  # only its name is mentioned
        return
    given = COMMANDS[command].make_context(command, list(arguments)).params
    # Names in capitals stand for whatever the reader has.
    if "preset" in given and not given["preset"].isupper():
        labels = given["strategy"].split(",") if given["strategy"] else None
        changes = dict(parse_change(text) for text in given["change"] or [])
        assert find_preset(given["preset"]).runs(labels, [0], changes)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in links(page):
        assert (page.parent / target).exists(), target


def test_a_new_strategy_costs_at_most_40_lines_and_one_test():
    files = {block.file: block for block in blocks(NEW_STRATEGY, "python")}
    assert files["first_order.py"].num_lines <= 40
    assert files["test_first_order.py"].text.count("def test_") == 1


def test_the_new_strategy_satisfies_what_every_strategy_must(tmp_path):
    """Registered as its page says, it is found by the conformance tests, like any other."""
    write_files(NEW_STRATEGY, tmp_path)
    tests = ("tests/conformance/test_every_strategy.py", "tests/simulation/test_reproducibility.py")
    options = ("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "mine", "-k", "first-order")
    summary = python(tmp_path, "-m", "pytest", *options, *tests, cwd=ROOT)
    passed = re.search(r"(\d+) passed", summary)
    assert passed
    assert int(passed[1]) >= 15


def test_the_new_strategy_runs_from_the_command_line(tmp_path):
    """With the options of its page, but in a smaller network and for a few rounds."""
    write_files(NEW_STRATEGY, tmp_path)
    run, resume = (
        shlex.split(line)[1:]
        for block in blocks(NEW_STRATEGY, "")
        for line in block.text.splitlines()
    )
    printed = python(tmp_path, *run, "--peers", "12", "--rounds", "2")
    assert re.search(r"first-order\W+\d\d", printed)
    assert (tmp_path / "runs/mine/first-order-seed0/summary.json").exists()
    assert python(tmp_path, *resume) == printed
