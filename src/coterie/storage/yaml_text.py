"""Reads YAML of unknown origin: what cannot be read, or stands for far too much, is a ValueError.

A few lines of YAML can stand for billions of values, by references to references. So what a text
stands for is counted, event by event, before anything of it is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

# As safe as the other, and ten times as fast where libyaml is there: sweeps have many files.
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 50
_MOST_VALUES = 200_000
_LONG_NUMBER = re.compile(r"[-+]?[\da-fobx_:.]{100,}", re.IGNORECASE)


def parse_yaml(text: str) -> Any:
    """Return what a text stands for."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("it holds bytes that are no text")
    try:
        _check_size(yaml.parse(text, Loader=_SAFE_LOADER))
        return _made(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {error}") from None


def _made(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_SAFE_LOADER)  # noqa: S506
    except ValueError as error:  # such as of 2020-13-45, which looks like a date
        raise ValueError(f"it is not valid YAML: {error}") from None
    except (LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
        # Such as of !!bool x, by which the library itself stumbles.
        raise ValueError("it is not valid YAML: a value is not of the type it claims") from None


def _check_size(events: Iterator[yaml.Event]) -> None:
    """Refuse what is nested too deeply, refers to itself, or stands for too many values."""
    sizes: dict[str, int] = {}
    # Of each group that is open: how it may be referred to, and how many values it has so far.
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
                raise ValueError(f"it holds a number of {len(event.value)} digits")
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
            raise ValueError(f"it stands for more than {_MOST_VALUES:,} values")
