"""Tables as a run records them, from the few columns a test is about."""

from __future__ import annotations

import pyarrow as pa

from coterie.runtime.run_tables import SCHEMAS

DEFAULTS = {
    "status": "active",
    "kind": "fetch",
    "delivered": True,
    "poisoned": False,
    "metric": "inverse-loss",
}


def recorded(name: str, rows: list[dict[str, object]]) -> pa.Table:
    """Return a table of a run; what a row does not say is 0, or what it usually is."""
    usual = {field.name: DEFAULTS.get(field.name, 0) for field in SCHEMAS[name]}
    return pa.Table.from_pylist([{**usual, **row} for row in rows], schema=SCHEMAS[name])


def where(table: pa.Table, **wanted: object) -> dict[str, object]:
    """Return the one row of a table that has these values."""
    (row,) = [
        row for row in table.to_pylist() if all(row[key] == value for key, value in wanted.items())
    ]
    return row
