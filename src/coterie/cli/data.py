"""`coterie data`: the datasets on this computer, and where to get the others."""

from __future__ import annotations

from rich.table import Table

from coterie.cli.console import out
from coterie.cli.options import DataRoot


def data(data_root: DataRoot = None) -> None:
    """Show which datasets are on this computer, and how to get the others."""
    from coterie.data.dataset_catalogue import DATASETS, describe

    table = Table("dataset", "available", "where, or how to get it")
    for name in DATASETS:
        status = describe(name, data_root)
        available = "[green]yes[/]" if status.available else "[yellow]no[/]"
        table.add_row(name, available, status.where if status.available else status.how_to_get)
    out.print(table)
