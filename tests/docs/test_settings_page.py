"""The page of settings is written from the settings, and is up to date."""

from __future__ import annotations

from pages import ROOT
from scripts import script


def test_settings_page_is_up_to_date():
    page = (ROOT / "docs" / "settings.md").read_text()
    written = script("write_settings_page").page()
    assert page == written, "run: .venv/bin/python tools/write_settings_page.py"
    assert "| – |" not in page.split("## strategy")[0], "every setting has a description"
