"""What the README promises holds."""

from __future__ import annotations

import re
import tomllib

import pytest
from commands import coterie as run_coterie
from pages import ROOT, blocks, named, without_blocks
from scripts import script

import coterie
from coterie.errors import Interrupted

README = (ROOT / "README.md").read_text()
RUNNING = (ROOT / "docs" / "running.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
tables = script("write_readme_tables")


def test_own_module_and_data_in_under_twenty_lines():
    (block,) = blocks(ROOT / "README.md", "python")
    assert block.num_lines < 20


def test_exit_codes_are_documented_and_true():
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", RUNNING, re.MULTILINE)}
    kinds = [coterie.CoterieError, *coterie.CoterieError.__subclasses__(), Interrupted]
    assert documented == {0, *(kind.exit_code for kind in kinds)}


@pytest.mark.parametrize("page", tables.TABLES, ids=named)
def test_tables_of_numbers_are_those_of_what_is_kept(page):
    text = page.read_text()
    for name in tables.TABLES[page]:
        assert f"<!-- {name}: " in text
        assert text == tables.with_table(text, name), (
            "run: .venv/bin/python tools/write_readme_tables.py"
        )


def test_no_other_number_is_typed_by_hand():
    text = re.sub(r"<!-- demo: .*?<!-- end -->", "", without_blocks(ROOT / "README.md"), flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)  # where links lead
    typed = set(re.findall(r"(?<!\w)\d+(?:\.\d+)*", text))
    version = PROJECT["requires-python"].removeprefix(">=")
    license_version = PROJECT["license"].removeprefix("Apache-")
    assert typed == {version, license_version, "2026"}  # the comparison is dated


def test_what_is_kept_of_a_run_is_what_its_table_says(tmp_path):
    names = ",".join(tables.STRATEGIES)
    small = ("--peers", 8, "--rounds", 2, "--seeds", 2, "--threads", 1)
    assert run_coterie("run", "digits", "--strategy", names, *small, "--out", tmp_path).code == 0
    kept = tables.results(tmp_path)
    assert kept["num_peers_of_all_seeds"] == 16
    runs = coterie.load_runs(tmp_path)
    for name, result in kept["strategies"].items():
        means = [run.summary.mean for run in runs if run.label == name]
        assert result["accuracy_percent"] == pytest.approx(50 * sum(means), abs=0.006)
        assert 0 <= result["num_worse_than_alone"] <= 16
    assert kept["strategies"]["local"]["num_worse_than_alone"] == 0


def test_exported_names():
    assert sorted(coterie.__all__) == [
        "Callback", "CoterieError", "NetworkSettings", "PeerData", "PoisonSettings", "Result",
        "STRATEGIES", "SimulationSettings", "Task", "TaskScore", "TrainingSettings", "load_run",
        "load_runs", "make_strategy", "simulate",
    ]  # fmt: skip
    for name in coterie.__all__:
        assert getattr(coterie, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = coterie.simulat


def test_every_strategy_has_its_place_among_the_algorithms():
    page = (ROOT / "docs" / "algorithms.md").read_text()
    for name in coterie.STRATEGIES:
        heading = re.search(rf"^## .*\b{name}\b", page, re.MULTILINE | re.IGNORECASE)
        assert heading or f"**{name}**" in page, name
