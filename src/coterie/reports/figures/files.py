"""Writing figures so that the same input gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from matplotlib.figure import Figure

from coterie.storage.files import write_atomically

Format: TypeAlias = Literal["pdf", "svg", "png"]
_NO_DATE: dict[Format, dict[str, str | None]] = {
    "pdf": {"Creator": "coterie", "Producer": None, "CreationDate": None},
    "svg": {"Creator": "coterie", "Date": None},
    "png": {"Software": None},
}


def write(figure: Figure, folder: Path, name: str, kind: Format) -> Path:
    """Write a figure as FOLDER/NAME.KIND."""

    def fill(file: BinaryIO) -> str:
        figure.savefig(file, format=kind, metadata=_NO_DATE[kind])
        return f"{name}.{kind}"

    return write_atomically(folder, fill)
