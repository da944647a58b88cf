"""The page of settings is written from the settings, and is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_settings_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("settings_page", DOCS / "settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "settings.md").read_text()
    assert page == module.page(), "run: .venv/bin/python docs/settings.py"
    assert "| – |" not in page.split("## strategy")[0], "every setting has a description"
