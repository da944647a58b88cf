"""The pages are true: their code runs, their commands exist, their links lead somewhere.

The blocks of a page are run in order, in one folder: commands in short, Python in one namespace
for the whole page. What a block prints is compared with the numbers in comments such as
`# about 0.76`. A block of Python that begins with `# name.py` is a file, one named test_*.py
a test of it; one of YAML that begins with `# folder/name.yaml` is a file too. Files are
saved where they stand on the page, into folders that must be there by then. What commands with
& at their end start is waited for by `wait`. A block below `<!-- not run: why -->` is left out, if
the reason is one of `REASONS`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from page_runs import PageRun, python, write_files
from pages import COMMAND, PAGES, ROOT, all_blocks, blocks, commands, links, named, without_blocks
from typer.main import get_command

from coterie.cli.main import app
from coterie.experiments.config import parse_change
from coterie.experiments.presets import find_preset
from coterie.experiments.presets.own_files import is_own_data

NEW_STRATEGY = ROOT / "docs" / "add-a-strategy.md"
NEW_SHIFT = ROOT / "docs" / "own-shift.md"
COMMAND_LINE = get_command(app)
COMMANDS = COMMAND_LINE.commands
RUN = {"bash", "python"}
# What is not code: files and what programs print, the contents of the site, its docstrings.
NOT_CODE = {"text", "yaml", "{toctree}", "{eval-rst}"}
REASONS = {
    "sets up an environment",
    "needs CIFAR-10",
    "needs a cluster",
    "needs a table",
    "needs the natural data",
    "takes hours",
    "measures for minutes",
    "goes on until Ctrl-C",
}
# What a reader has after a page.
LEFT = {
    "README.md": ["runs/mine/random-seed0/summary.json"],
    "docs/add-a-strategy.md": ["runs/mine/first-order-seed0/summary.json"],
    "docs/own-model-and-data.md": ["runs/mine/oracle-seed0/summary.json"],
    "docs/own-files.md": ["runs/future/kin-seed0/summary.json", "crops.html"],
    "docs/own-shift.md": ["negatives.html"],
    "docs/peers.md": ["alice/run/models.safetensors", "swarm.html"],
    "docs/reading-a-report.md": ["report.html", "figures/curves-test.pdf"],
    "docs/tutorial.md": ["report.html", "runs/mine/dac-seed1/summary.json"],
}


def is_run(page: Path) -> bool:
    """Say whether anything on a page is run."""
    return any(block.language in RUN and not block.why for block in all_blocks(page))


@pytest.mark.network
@pytest.mark.parametrize("page", [p for p in PAGES if is_run(p)], ids=named)
def test_blocks_run_in_order_and_print_what_they_say(page, tmp_path):
    PageRun(page, tmp_path).run()
    for file in LEFT.get(named(page), []):
        assert (tmp_path / file).exists(), file


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_is_run_or_says_why_not(page):
    for block in all_blocks(page):
        assert block.language in RUN | NOT_CODE, block
        assert block.why is None or (block.language in RUN and block.why in REASONS), block
        if block.language in NOT_CODE:
            lines = [line.removeprefix("$ ") for line in block.text.splitlines()]
            assert not any(COMMAND.fullmatch(line) for line in lines), block
    assert "```" not in without_blocks(page), "a block that is not closed, or not at its indent"


def test_every_reason_is_needed():
    assert {block.why for page in PAGES for block in all_blocks(page)} - {None} == REASONS


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_exist(page):
    for words in commands(page):
        match words:
            case ["coterie", option] if option.startswith("--"):  # of no command
                assert any(option in each.opts for each in COMMAND_LINE.params), option
            case ["coterie", command, *arguments]:
                check_command(command, arguments)
            case ["make", target, *_]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            case [_, script, *_] if script.endswith(".py") and "/" in script:
                assert (ROOT / script).exists(), script


def check_command(name: str, arguments: list[str]) -> None:
    """Check that a command has all these options, and that an experiment can be made so."""
    assert name in COMMANDS
    command = COMMANDS[name]
    arguments = [word for word in arguments if word != "&"]
    while arguments and hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if not arguments:  # only its name is mentioned
        return
    given = command.make_context(name, arguments).params
    # Names in capitals stand for whatever the reader has.
    if "preset" in given and not given["preset"].isupper() and not is_own_data(given["preset"]):
        # Strategies of a reader's own file are run where the page's blocks are.
        own = given.get("strategy_file")
        labels = given["strategy"].split(",") if given["strategy"] and not own else None
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
    """Made known as --strategy-file does, it is found by the conformance tests, like any other."""
    write_files(NEW_STRATEGY, tmp_path)
    home = "coterie.experiments.user_strategies"
    load = f"from {home} import load_strategies\n\nload_strategies([{{!r}}])\n"
    (tmp_path / "mine.py").write_text(load.format(str(tmp_path / "first_order.py")))
    tests = ("tests/conformance/test_every_strategy.py", "tests/simulation/test_reproducibility.py")
    options = ("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "mine", "-k", "first-order")
    summary = python(tmp_path, "-m", "pytest", *options, *tests, cwd=ROOT)
    passed = re.search(r"(\d+) passed", summary)
    assert passed
    assert int(passed[1]) >= 15


def test_the_new_shift_becomes_part_of_coterie_as_its_page_says(tmp_path):
    """In a copy of the package, with the class moved and the union extended."""
    shutil.copytree(ROOT / "src" / "coterie", tmp_path / "coterie")
    (new,) = (b.text for b in blocks(NEW_SHIFT, "python") if b.file == "missing_labels.py")
    home = tmp_path / "coterie" / "data" / "shifts.py"
    text = home.read_text()
    class_alone = new[new.index("class MissingLabelShift") :]
    union = "Shift = Annotated[\n"
    assert text.count(f"\n{union}") == 1
    home.write_text(text.replace(union, f"{class_alone}\n\n{union}    MissingLabelShift |\n"))
    (change,) = re.findall(r"--set '(shift=\{kind: missing-labels.+?\})'", NEW_SHIFT.read_text())
    size = ("--strategy", "oracle", "--peers", "8", "--rounds", "1", "--threads", "1")
    table = python(tmp_path, "-m", "coterie", "run", "digits", "--set", change, *size)
    assert "without 0,1" in table
    assert "without 8,9" in table
