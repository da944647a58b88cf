"""Joins the saved states of the parts of a run, and cuts a part out of a whole state.

A run divided into shards saves one state per shard. Joined, they are the state that a run in one
process saves, so any number of shards can continue it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Saved = dict[str, Any]
NUMBERS = "numbers"
"""The key of the first number and of the number after the last one, in the state of a part."""
PER_PEER = ("state", "runtime")
"""The keys of what has an entry per peer."""
SHARED = ("server",)
"""What belongs to no peer, such as the models of a server."""
ON_SECOND_AXIS = ("latest", "tested")
"""Arrays (…, K), whose second axis is that of the peers."""
BY_NUMBER = ("poisoned",)
"""Dictionaries of some peers, by the text of their numbers."""


def join_parts(parts: Sequence[Saved]) -> Saved:
    """Return the state of a whole run; `parts` are in the order of peers."""
    first = parts[0]
    joined = {key: value for key, value in first.items() if key != NUMBERS}
    for key in PER_PEER:
        joined[key] = _join([part[key] for part in parts], key)
    return joined


def cut_part(whole: Saved, numbers: range) -> Saved:
    """Return the state of some peers."""
    part = {**whole, NUMBERS: [numbers.start, numbers.stop]}
    for key in PER_PEER:
        part[key] = _cut(whole[key], key, numbers)
    return part


def _join(values: list[Any], name: str) -> Any:
    first = values[0]
    if name in SHARED or first is None:
        return first
    if name in BY_NUMBER:
        return {key: value for each in values for key, value in each.items()}
    if isinstance(first, dict):
        return {key: _join([each[key] for each in values], key) for key in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(values, axis=_axis(name))
    return [item for each in values for item in each]


def _cut(value: Any, name: str, numbers: range) -> Any:
    if name in SHARED or value is None:
        return value
    if name in BY_NUMBER:
        return {key: each for key, each in value.items() if int(key) in numbers}
    if isinstance(value, dict):
        return {key: _cut(each, key, numbers) for key, each in value.items()}
    here = slice(numbers.start, numbers.stop)
    if isinstance(value, np.ndarray) and _axis(name):
        return value[:, here]
    return value[here]


def _axis(name: str) -> int:
    return int(name in ON_SECOND_AXIS)
