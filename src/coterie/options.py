"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataRoot = Annotated[
    Path | None, typer.Option(help="Folder with local copies of datasets.", show_default=False)
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Peers trained at the same time; all cores when not given."),
]
SideBySide = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Runs at the same time, which share the threads; when not given as many as there are "
        "threads, if there are as many runs and memory is enough.",
        show_default=False,
    ),
]
Strategies = Annotated[
    str | None,
    typer.Option(help="Strategies to compare, separated by commas.", show_default=False),
]
FirstSeed = Annotated[int, typer.Option(min=0, help="The first seed.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds, one run each.")]
Rounds = Annotated[int | None, typer.Option(min=0, help="Rounds after the initial training.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, by its dotted key."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Output folder; a new one in runs/ when not given.")
]
Scale = Annotated[
    float,
    typer.Option(
        help="Part of the rounds and peers, above 0 and at most 1, for a quick look. What counts "
        "rounds or peers shrinks along; --rounds, --peers and --set come after."
    ),
]
Peers = Annotated[int | None, typer.Option(help="How many peers.")]
