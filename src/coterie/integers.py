"""How large whole numbers may be."""

from __future__ import annotations

from typing import Any

MAX_INTEGER = 2**63 - 1
"""The largest whole number that tables and compiled code can hold."""


def check_integers(value: Any) -> None:
    """Refuse whole numbers, also in lists, that are too large for tables and compiled code."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, int) and abs(each) > MAX_INTEGER:
            raise ValueError(f"whole numbers go up to {MAX_INTEGER:,}")
        if isinstance(each, tuple | list):
            check_integers(each)
