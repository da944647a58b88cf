"""The base of every group of settings; the groups stand with what they set."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

MAX_INTEGER = 2**63 - 1
"""The largest whole number that tables and compiled code can hold."""


class Settings(BaseModel):
    """The base of every group of settings: a typo is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*")
    @classmethod
    def _check_integers(cls, value: Any) -> Any:
        check_integers(value)
        return value


def check_integers(value: Any) -> None:
    """Refuse whole numbers, also in lists, that are too large for tables and compiled code."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, int) and abs(each) > MAX_INTEGER:
            raise ValueError(f"whole numbers go up to {MAX_INTEGER:,}")
        if isinstance(each, tuple | list):
            check_integers(each)
