"""Tables of farms, written by tests as a user would."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FARMS = ("east", "north", "west")


def farm_rows(rows_per_farm: int = 40) -> list[list[object]]:
    """Return rows of [farm, day, soil, rain, crop, yield]; rain is sometimes missing."""
    rng = np.random.default_rng(0)
    rows: list[list[object]] = []
    for number, farm in enumerate(FARMS):
        for day in range(rows_per_farm):
            soil = ("clay", "sand")[int(rng.integers(2))]
            rain = round(float(rng.normal(10 * number, 2)), 3)
            grows = rain > 10 * number if number < 2 else rain < 10 * number
            shown = "?" if day % 10 == 3 else rain
            date = f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}"
            rows.append([farm, date, soil, shown, "good" if grows else "bad", rain * 3 + number])
    return rows


HEADER = ("farm", "day", "soil", "rain", "crop", "yield")


def write_farms(path: Path, rows: list[list[object]] | None = None, separator: str = ",") -> Path:
    """Write a table of farms and return its path."""
    lines = [HEADER, *(farm_rows() if rows is None else rows)]
    path.write_text("\n".join(separator.join(map(str, line)) for line in lines) + "\n")
    return path
