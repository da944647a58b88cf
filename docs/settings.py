"""Writes docs/settings.md, the list of all settings, from the settings themselves.

usage: python docs/settings.py
"""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from coterie.config import RunConfig
from coterie.strategies import STRATEGIES

PAGE = Path(__file__).parent / "settings.md"
INTRODUCTION = """# Settings

Every setting of a run, as it stands in `config.yaml`; change any with `--set dotted.key=value`.
A group with several kinds is changed as a whole, such as
`--set 'drift={kind: random, every: 20}'`, or key by key.
"""


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, _table("", RunConfig)]
    for name, field in RunConfig.model_fields.items():
        parts += _group(name, field)
    parts.append("\n## strategy\n\n| name | options | what it does |\n|---|---|---|")
    for name, kind in STRATEGIES.items():
        options = ", ".join(f"`{key}` = {value}" for key, value in kind().options().items())
        parts.append(f"| {name} | {options or '–'} | {kind.summary} |")
    return "\n".join(parts) + "\n"


def _group(name: str, field: FieldInfo) -> list[str]:
    parts = []
    for kind in _kinds(field.annotation):
        title = kind.model_fields["kind"].default if "kind" in kind.model_fields else ""
        parts.append(f"\n## {name}{f': {title}' if title else ''}\n\n{_description(kind)}\n")
        if set(kind.model_fields) - {"kind"}:
            parts.append(_table(f"{name}.", kind))
        for inner, inner_field in kind.model_fields.items():
            if inner != "kind":
                parts += _group(f"{name}.{inner}", inner_field)
    return parts


def _table(prefix: str, kind: type[BaseModel]) -> str:
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        if name == "kind" or _kinds(field.annotation):
            continue
        default = "required" if field.default is PydanticUndefined else f"`{field.default}`"
        meaning = " ".join((field.description or "").split()) or "–"
        rows.append(f"| `{prefix}{name}` | {default} | {meaning} |")
    return "\n".join(rows)


def _kinds(annotation: Any) -> list[type[BaseModel]]:
    """Return the groups of settings an annotation allows, unions taken apart."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) is tuple:
        return []
    return [kind for part in typing.get_args(annotation) for kind in _kinds(part)]


def _description(kind: type[BaseModel]) -> str:
    return inspect.getdoc(kind) or ""


if __name__ == "__main__":
    PAGE.write_text(page())
