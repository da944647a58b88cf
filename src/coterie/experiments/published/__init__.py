"""Published results, one file per paper, by preset and variant."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml
from pydantic import TypeAdapter

from coterie.experiments.published.published_table import PublishedFigure, PublishedTable

PAPERS = ("dac", "friends", "pens")


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Return every published table by the name of its preset."""
    tables = [table for paper in PAPERS for table in _read(paper)]
    return {table.preset: table for table in tables}


@cache
def published_figures() -> tuple[PublishedFigure, ...]:
    """Return all published figures."""
    return TypeAdapter(tuple[PublishedFigure, ...]).validate_python(_read_yaml("figures"))


def _read(paper: str) -> list[PublishedTable]:
    return TypeAdapter(list[PublishedTable]).validate_python(_read_yaml(paper))


def _read_yaml(name: str) -> Any:
    text = (resources.files(__name__) / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
