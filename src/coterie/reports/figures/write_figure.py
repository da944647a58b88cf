"""Write figures; the same input gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from matplotlib.figure import Figure

from coterie.storage.files import write_atomically

FigureFormat: TypeAlias = Literal["pdf", "svg", "png"]
_NO_DATE: dict[FigureFormat, dict[str, str | None]] = {
    "pdf": {"Creator": "coterie", "Producer": None, "CreationDate": None},
    "svg": {"Creator": "coterie", "Date": None},
    "png": {"Software": None},
}


def write_figure(figure: Figure, folder: Path, name: str, file_format: FigureFormat) -> Path:
    """Write a figure as FOLDER/NAME.FORMAT."""

    def fill(file: BinaryIO) -> str:
        figure.savefig(file, format=file_format, metadata=_NO_DATE[file_format])
        return f"{name}.{file_format}"

    return write_atomically(folder, fill)
