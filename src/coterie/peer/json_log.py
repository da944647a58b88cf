"""Structured logs: one JSON object per line, in files of limited size."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

LOG = "peer.log"
LARGEST_BYTES, NUM_OLD = 10 * 2**20, 3


class JsonLines(logging.Formatter):
    """Formats a record and its `fields` as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "where": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


@contextmanager
def write_log(folder: Path) -> Iterator[None]:
    """Write the log of the peer in a folder."""
    handler = RotatingFileHandler(
        folder / LOG, maxBytes=LARGEST_BYTES, backupCount=NUM_OLD, encoding="utf-8"
    )
    handler.setFormatter(JsonLines())
    root = logging.getLogger("coterie")
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


def log_event(log: logging.Logger, what: str, **fields: Any) -> None:
    """Log an event with its fields."""
    log.info(what, extra={"fields": fields})
