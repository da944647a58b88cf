"""The page about a run's folder names every column of every table, and no other."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

from coterie.runtime.run_tables import SCHEMAS

PAGE = (ROOT / "docs" / "run-folder.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_table_has_its_section():
    assert [name for name in SECTIONS if name in SCHEMAS] == list(SCHEMAS)
    tables = {name for name, text in SECTIONS.items() if "| column | type |" in text}
    assert tables == set(SCHEMAS)


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_every_column_is_documented_and_no_other(name):
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", SECTIONS[name], re.MULTILINE
    )
    assert len(rows) == SECTIONS[name].count("\n|") - 2, "a row is not of the usual form"
    documented = [(column, kind) for column, kind, _, _ in rows]
    assert documented == [(field.name, str(field.type)) for field in SCHEMAS[name]]
