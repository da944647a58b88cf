"""Writes docs/command-line.md, the list of all commands and options, from the commands themselves.

usage: python tools/write_command_line_page.py
"""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from typing import Any

from typer.main import get_command

from coterie.cli.main import app
from docs_folder import DOCS

PAGE = DOCS / "command-line.md"
INTRODUCTION = """# Command line

Every command with its options, as `--help` shows them. Exit codes: 0 done, 1 a defect in Coterie,
2 a setting that cannot work, 3 data, 4 files, 5 training that diverged, 6 a strategy that broke the
rules, 130 stopped by Ctrl-C, SIGTERM or SIGHUP. `coterie --version` says which version this is.
"""
# In the order in which people meet them.
ORDER = (
    "run",
    "sweep",
    "study",
    "resume",
    "watch",
    "compare",
    "report",
    "figures",
    "analyse",
    "export",
)


def page() -> str:
    """Return the whole page."""
    commands = every_command(get_command(app))
    names = sorted(commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return "\n".join([INTRODUCTION, *(_section(name, commands[name]) for name in names)])


def every_command(group: Any, words: str = "") -> dict[str, Any]:
    """Return the commands of a group, and those of the groups in it, by all their words."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= every_command(command, f"{words}{name} ")
        else:
            found[f"{words}{name}"] = command
    return found


def _section(name: str, command: Any) -> str:
    types = typing.get_type_hints(inspect.unwrap(command.callback))
    parameters = [
        _Parameter(each, _choices(types[each.name]))
        for each in command.params
        if each.name in types
    ]
    arguments = [each for each in parameters if not each.is_option]
    options = [each for each in parameters if each.is_option]
    usage = ["coterie", name, *(each.usage for each in arguments), *["[OPTIONS]"][: len(options)]]
    lines = [f"## {name}\n", f"{command.help}\n", f"```text\nusage: {' '.join(usage)}\n```\n"]
    if parameters:
        rows = [each.row for each in (*arguments, *options)]
        lines += ["| name | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Parameter:
    """An argument or an option of a command."""

    given: Any
    choices: tuple[str, ...]

    @property
    def is_option(self) -> bool:
        return bool(self.given.param_type_name == "option")

    @property
    def value(self) -> str:
        """What stands for its value: the choices there are, or a name."""
        return " or ".join(self.choices) or str(self.given.metavar or self.given.name.upper())

    @property
    def usage(self) -> str:
        return self.value if self.given.required else f"[{self.value}]"

    @property
    def row(self) -> str:
        """Its line in the table."""
        names = [self.value]
        if self.is_option:
            value = "" if self.given.is_flag else f" {self.value}"
            names = [f"{name}{value}" for name in self.given.opts]
        shown = ", ".join(f"`{name}`" for name in names)
        return f"| {shown} | {self.default} | {self.given.help} |"

    @property
    def default(self) -> str:
        if self.given.required:
            return "required"
        no_default = self.given.default is None or self.given.default is False
        return "–" if no_default else f"`{self.given.default}`"


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the words an annotation allows, optional or not."""
    if typing.get_origin(annotation) is typing.Literal:
        return tuple(map(str, typing.get_args(annotation)))
    return tuple(word for part in typing.get_args(annotation) for word in _choices(part))


if __name__ == "__main__":
    PAGE.write_text(page())
