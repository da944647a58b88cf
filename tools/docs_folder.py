"""Where the pages of the documentation lie, and what they are written from."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
