"""`coterie report`: one page about runs, which can be sent to people and opened anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import console
from coterie.errors import StorageError


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Output folders of `coterie run`, or single runs."),
    ],
    target: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes.")
    ] = Path("report.html"),
) -> None:
    """Write one page with all figures: who learnt from whom, and did it help."""
    from coterie.reports.html.page_data import build_page_data
    from coterie.reports.html.page_shell import render_page
    from coterie.results.read_runs import Runs, read_runs
    from coterie.storage.files import write_text

    _check_target(target)
    gathered = read_runs(folders)
    for problem in gathered.problems:
        console.errors.print(problem, soft_wrap=True, highlight=False, markup=False, style="yellow")
    told = build_page_data(Runs(gathered, _without_paths(gathered.problems, folders)))
    write_text(target, render_page(told["groups"][0]["title"], told))
    megabytes = target.stat().st_size / 1e6
    console.out.print(
        f"{len(gathered)} runs are in {target} ({megabytes:.1f} MB); open it in any browser.",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _without_paths(problems: Sequence[str], folders: Sequence[Path]) -> tuple[str, ...]:
    """Name folders as people do: a page is for others, who have no business with our disk."""
    names = {str(folder): folder.resolve().name for folder in folders}
    found = []
    for problem in problems:
        for path, name in names.items():
            problem = problem.replace(path, name) if len(path) > 1 else problem  # noqa: PLW2901
        found.append(problem)
    return tuple(found)


def _check_target(target: Path) -> None:
    """Refuse a file that cannot be written before time is spent on it."""
    if target.is_dir():
        raise StorageError(f"{target} is a folder. Name a file with -o, such as -o report.html.")
    if not target.parent.is_dir():
        raise StorageError(
            f"Cannot write {target}: there is no folder {target.parent}. Make it first, or choose "
            "another file with -o."
        )
