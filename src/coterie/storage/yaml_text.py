"""Reads YAML from unknown sources; invalid or huge texts are a ValueError.

A few lines of YAML can expand to billions of values, by references to references. So the values are
counted, event by event, before any is created.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

# The loader of libyaml, where available, is as safe and ten times as fast: sweeps have many files.
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 50
_MOST_VALUES = 200_000
_LONG_NUMBER = re.compile(r"[-+]?[\da-fobx_:.]{100,}", re.IGNORECASE)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("it has bytes that are not text")
    try:
        _check_size(yaml.parse(text, Loader=_SAFE_LOADER))
        return _load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {error}") from None


def _load(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_SAFE_LOADER)  # noqa: S506
    except ValueError as error:  # such as for 2020-13-45, which looks like a date
        raise ValueError(f"it is not valid YAML: {error}") from None
    except (LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
        # Such as for !!bool x, which the library does not handle.
        raise ValueError("it is not valid YAML: a value is not of the type it claims") from None


def _check_size(events: Iterator[yaml.Event]) -> None:
    """Refuse a text that is nested too deeply, refers to itself, or has too many values."""
    sizes: dict[str, int] = {}
    # The open groups: the anchor of each, and its number of values so far.
    open_groups: list[tuple[str | None, int]] = [(None, 0)]
    for event in events:
        size = 0
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            if name not in sizes:
                raise ValueError(f"'*{name[:40]}' refers to itself or to nothing")
            size = sizes[name]
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and _LONG_NUMBER.fullmatch(event.value):
                raise ValueError(f"it has a number of {len(event.value)} digits")
            size = 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_groups) > _DEEPEST:
                raise ValueError(f"its groups are nested more than {_DEEPEST} deep")
            open_groups.append((event.anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_groups.pop()
            if anchor:
                sizes[anchor] = size
        outer, before = open_groups[-1]
        open_groups[-1] = (outer, before + size)
        if before + size > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
