"""What the README promises holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import blocks

import coterie
from coterie.errors import Interrupted

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_own_module_and_data_in_under_twenty_lines():
    (block,) = blocks(ROOT / "README.md", "python")
    assert block.num_lines < 20


def test_exit_codes_are_documented_and_true():
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    kinds = [coterie.CoterieError, *coterie.CoterieError.__subclasses__(), Interrupted]
    assert documented == {0, *(kind.exit_code for kind in kinds)}


def test_exported_names():
    assert sorted(coterie.__all__) == [
        "CoterieError", "RunFolder", "Runs", "NetworkSettings", "PeerData",
        "PoisonSettings", "Result",
        "STRATEGIES", "SimulationSettings", "TrainingSettings", "load_run", "load_runs",
        "make_strategy", "simulate",
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
