"""The base class of all settings, and errors for mistakes in them."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from coterie.errors import ConfigError, simplify, suggest

MAX_INTEGER = 2**63 - 1
"""The largest whole number that tables and compiled code can hold."""


def check_integers(value: Any) -> None:
    """Refuse whole numbers, also in lists, that are too large for tables and compiled code."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, int) and abs(each) > MAX_INTEGER:
            raise ValueError(f"whole numbers go up to {MAX_INTEGER:,}")
        if isinstance(each, tuple | list):
            check_integers(each)


class Settings(BaseModel):
    """The base class of all groups of settings; unknown names are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, *unnamed: Any, **values: Any) -> None:
        """Check the values; mistakes are a ConfigError."""
        if unnamed:
            name = next(iter(type(self).model_fields))
            raise ConfigError(
                f"{type(self).__name__} needs the names of settings, such as {name}={unnamed[0]!r}."
            )
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _as_config_error(error, type(self)) from None

    # Settings from files keep pydantic's own errors, which know the position in the file.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @field_validator("*")
    @classmethod
    def _check_integers(cls, value: Any) -> Any:
        check_integers(value)
        return value


_LONGEST_SHOWN = 300
Group = TypeVar("Group", bound=Settings)


def parse_settings(
    kind: type[Group], settings: Mapping[str, Any], context: Mapping[str, Any] | None = None
) -> Group:
    """Return settings from a mapping; mistakes are a ConfigError that says what to do."""
    try:
        return kind.model_validate(settings, context=context)
    except ValidationError as error:
        raise _as_config_error(error, kind) from None


def _as_config_error(error: ValidationError, kind: type[BaseModel]) -> ConfigError:
    return ConfigError("\n".join(_explain(dict(each), kind) for each in error.errors()))


_EXPECTED = {
    "model_type": "a group of settings, such as {key: value}",
    "model_attributes_type": "a group of settings, such as {kind: …, key: value}",
    "dict_type": "a group of settings, such as {key: value}",
    "tuple_type": "a list, such as [a, b]",
}
"""Plain words for errors that pydantic describes with Python types."""


def _explain(error: dict[str, Any], root: type[BaseModel]) -> str:
    where, kind = _at(tuple(error["loc"]), root)
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            _, group = _at(tuple(error["loc"][:-1]), root)
            known = group.model_fields if _is_model(group) else ()
            name = str(error["loc"][-1])
            if found := find_keys(root, name):
                return f"There is no setting '{where}'. Did you mean {' or '.join(found)}?"
            return f"There is no setting '{where}'.{suggest(name, known)}"
        case "missing":
            return f"The setting '{where}' is missing."
        case "union_tag_invalid":
            tag = str(error["ctx"]["tag"])
            return f"{where}.kind = '{tag}' cannot be used.{suggest(tag, _kinds(kind))}"
        case "union_tag_not_found":
            known = ", ".join(_kinds(kind))
            shown = _shown(given)
            return f"{where} = {shown} cannot be used: {where}.kind is missing. Known: {known}."
    expected = _EXPECTED.get(error["type"])
    if error["type"] == "model_type" and _is_model(kind) and where:
        names = list(kind.model_fields)
        expected = f"a group of settings: {', '.join(names)}. Set one, such as {where}.{names[0]}=…"
    elif error["type"] == "tuple_type" and isinstance(given, str | int | float):
        expected = f"a list, such as [{given}]"
    message = f"expected {expected}" if expected else simplify(error["msg"])
    # Without a place, it is a mistake that concerns several settings.
    about = f"{where} = {_shown(given)} cannot be used: {message}" if where else message
    return f"{about}."


def _shown(given: object) -> str:
    """Return a value as text, shortened."""
    text = repr(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _at(place: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, Any]:
    """Return the dotted key of a location from pydantic, and the type of the setting.

    Pydantic's locations have the kind of a union as a part; users' keys do not.
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
    """Return the members of a union of settings, by kind."""
    members = [member for member in typing.get_args(union) if _is_model(member)]
    return {m.model_fields["kind"].default: m for m in members if "kind" in m.model_fields}


_SHORT = {"lr": "learning_rate", "bs": "batch_size", "wd": "weight_decay", "arch": "name"}
"""Short names of settings in other libraries."""


def find_keys(root: type[BaseModel], name: str) -> list[str]:
    """Return the dotted keys of settings with this name, or with the name that it abbreviates."""
    wanted = _SHORT.get(name, name)
    return [key for key in _keys(root) if key.rpartition(".")[2] == wanted and key != name]


def _keys(kind: type[BaseModel], group: str = "") -> Iterator[str]:
    """Yield the dotted keys of all settings, except in unions."""
    for name, field in kind.model_fields.items():
        if _is_model(field.annotation):
            yield from _keys(field.annotation, f"{group}{name}.")  # type: ignore[arg-type]
        else:
            yield f"{group}{name}"


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
