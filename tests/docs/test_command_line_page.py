"""The page of commands is written from the commands, and is up to date."""

from __future__ import annotations

from pages import ROOT
from scripts import script
from typer.main import get_command

from coterie.cli.main import app


def test_command_line_page_is_up_to_date():
    page = (ROOT / "docs" / "command-line.md").read_text()
    written = script("write_command_line_page").page()
    assert page == written, "run: .venv/bin/python tools/write_command_line_page.py"


def test_every_option_of_every_command_is_on_the_page():
    sections = script("write_command_line_page").page().split("\n## ")[1:]
    by_name = {section.partition("\n")[0]: section for section in sections}
    commands = script("write_command_line_page").every_command(get_command(app))
    assert {name.partition(" ")[0] for name in by_name} == set(get_command(app).commands)
    assert set(by_name) == set(commands)
    for name, command in commands.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("-") and option != "--help":
                    assert f"`{option}" in by_name[name], (name, option)
    assert "None" not in "".join(sections)
