"""Checks settings from files and options: a mistake is named, with the nearest valid key."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coterie.errors import ConfigError, StorageError, nearest
from coterie.plain_yaml import parse_yaml
from coterie.settings import Settings
from coterie.storage import read_small

_LONGEST_SHOWN = 300
Kind = TypeVar("Kind", bound=Settings)


def checked(kind: type[Kind], settings: Mapping[str, Any]) -> Kind:
    """Return checked settings; mistakes become a ConfigError that says what to do."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(_explain(dict(each), kind) for each in error.errors())
        ) from None


def read_settings(kind: type[Kind], path: Path) -> Kind:
    """Read settings from a YAML file."""
    try:
        settings = parse_yaml(read_small(path).decode())
    except ValueError as error:
        raise StorageError(f"Cannot read the configuration {path}: {error}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} does not hold a configuration.")
    try:
        return checked(kind, settings)
    except ConfigError as error:
        raise ConfigError(f"{path} cannot be used.\n{error}") from None


_EXPECTED = {
    "model_type": "a group of settings, such as {key: value}",
    "model_attributes_type": "a group of settings, such as {kind: …, key: value}",
    "dict_type": "a group of settings, such as {key: value}",
    "tuple_type": "a list, such as [a, b]",
}
"""What pydantic would explain in words of Python."""


def _explain(error: dict[str, Any], root: type[BaseModel]) -> str:
    where, kind = _at(tuple(error["loc"]), root)
    given = _shown(error["input"])
    match error["type"]:
        case "extra_forbidden":
            _, group = _at(tuple(error["loc"][:-1]), root)
            known = group.model_fields if _is_model(group) else ()
            return f"There is no setting '{where}'.{nearest(str(error['loc'][-1]), known)}"
        case "missing":
            return f"The setting '{where}' is missing."
        case "union_tag_invalid":
            tag = str(error["ctx"]["tag"])
            return f"{where}.kind = '{tag}' cannot be used.{nearest(tag, _kinds(kind))}"
        case "union_tag_not_found":
            known = ", ".join(_kinds(kind))
            return f"{where} = {given} cannot be used: {where}.kind is missing. Known: {known}."
    expected = _EXPECTED.get(error["type"])
    message = f"expected {expected}" if expected else error["msg"].removeprefix("Value error, ")
    return f"{where} = {given} cannot be used: {message}."


def _shown(given: object) -> str:
    """Return a value as it can be said in a sentence."""
    text = repr(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _at(place: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, Any]:
    """Return the dotted key of a place that pydantic named, and the type of what is there.

    Pydantic puts the kind of a union into the place; a user does not.
    """
    kind: Any = root
    keys = []
    for part in place:
        if not _is_model(kind) and part in _kinds(kind):
            kind = _kinds(kind)[str(part)]
            continue
        field = kind.model_fields.get(str(part)) if _is_model(kind) else None
        kind = field.annotation if field else None
        keys.append(str(part))
    return ".".join(keys), kind


def _kinds(union: Any) -> dict[str, Any]:
    """Return the members of a union of settings by their kinds."""
    members = [member for member in typing.get_args(union) if _is_model(member)]
    return {m.model_fields["kind"].default: m for m in members if "kind" in m.model_fields}


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
