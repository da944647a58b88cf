"""The results the papers published, one file per paper, by preset and variant."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import TypeAdapter

from coterie.experiments.published.published_table import PublishedTable

PAPERS = ("dac", "friends", "pens")


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Return every published table by the name of its preset."""
    tables = [table for paper in PAPERS for table in _read(paper)]
    return {table.preset: table for table in tables}


def _read(paper: str) -> list[PublishedTable]:
    text = (resources.files(__name__) / f"{paper}.yaml").read_text(encoding="utf-8")
    return TypeAdapter(list[PublishedTable]).validate_python(yaml.safe_load(text))
