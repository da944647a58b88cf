"""Writes docs/settings.md, the list of all settings, from the settings themselves.

usage: python tools/write_settings_page.py
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from coterie.experiments.config import RunConfig
from coterie.peer.peer_config import PeerConfig
from coterie.strategies import STRATEGIES
from docs_folder import DOCS

PAGE = DOCS / "settings.md"
INTRODUCTION = """# Settings

Every setting of a run, as it stands in `config.yaml`; change any with `--set dotted.key=value`.
A group with several kinds is changed as a whole, such as
`--set 'drift={kind: random, every: 20}'`, or key by key.
"""
PEER = """
## A real peer

Every setting of `peer.yaml`, for [real peers](peers.md). What is below `training` is as above;
of `watch` only `watch.beliefs` counts.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([*_run(), *_peer()]) + "\n"


def _run() -> list[str]:
    """Return the settings of a run."""
    parts = [INTRODUCTION, _table("", RunConfig)]
    for name, field in RunConfig.model_fields.items():
        parts += _group(name, field)
    parts.append("\n## strategy\n\n| name | options | what it does |\n|---|---|---|")
    for name, kind in STRATEGIES.items():
        options = ", ".join(f"`{key}` = {value}" for key, value in kind().options().items())
        parts.append(f"| {name} | {options or '–'} | {kind.summary} |")
    return parts


def _peer() -> list[str]:
    """Return the settings of a real peer, without the groups that a run has as well."""
    parts = [PEER, _table("", PeerConfig)]
    for name, field in PeerConfig.model_fields.items():
        if _kinds(field.annotation) != _kinds(_annotation(RunConfig, name)):
            parts += _group(name, field, "###", "A peer's ")
    return parts


def _annotation(kind: type[BaseModel], name: str) -> Any:
    return kind.model_fields[name].annotation if name in kind.model_fields else None


def _group(name: str, field: FieldInfo, level: str = "##", whose: str = "") -> list[str]:
    parts = []
    for kind in _kinds(field.annotation):
        title = kind.model_fields["kind"].default if _is_one_of_several(kind) else ""
        heading = f"{level} {whose}{name}{f': {title}' if title else ''}"
        parts.append(f"\n{heading}\n\n{_description(kind)}\n")
        if set(kind.model_fields) - ({"kind"} if title else set()):
            parts.append(_table(f"{name}.", kind))
        for inner, inner_field in kind.model_fields.items():
            if inner != "kind":
                parts += _group(f"{name}.{inner}", inner_field, level, whose)
    return parts


def _table(prefix: str, kind: type[BaseModel]) -> str:
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in kind.model_fields.items():
        if (name == "kind" and _is_one_of_several(kind)) or _kinds(field.annotation):
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


def _is_one_of_several(kind: type[BaseModel]) -> bool:
    """Whether a group is of one kind among others, which have settings of their own."""
    field = kind.model_fields.get("kind")
    return field is not None and len(typing.get_args(field.annotation)) == 1


def _description(kind: type[BaseModel]) -> str:
    return inspect.getdoc(kind) or ""


if __name__ == "__main__":
    PAGE.write_text(page())
