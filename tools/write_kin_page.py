"""Writes docs/kin.md, Kin beside other strategies, from kin/*, and draws its figures.

usage: python tools/write_kin_page.py
       python tools/write_kin_page.py FOLDER [--only SETTINGS]

With the folder of a `coterie study kin`, its finished runs are kept first, of all settings or some;
other runs that were kept before stay. What was run in several folders can so be put together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.cli.options import named_strategies
from coterie.errors import CoterieError
from coterie.reports.table_formats import markdown
from coterie.storage.files import write_text
from coterie.studies.catalogue import STUDIES
from coterie.studies.tables import group_sheets
from docs_folder import DOCS
from kin_page.figures import CAPTIONS, CURVES, DOTS, draw
from kin_page.kept import KeptSetting, keep, read
from kin_page.text import FINDINGS, GROUPS, INTRODUCTION

PAGE, KEPT, PICTURES = DOCS / "kin.md", DOCS / "kin", DOCS / "pictures"
STUDY = STUDIES["kin"]


def page(folder: Path = KEPT, pictures: Path = PICTURES) -> str:
    """Return the whole page."""
    kept = read(STUDY, folder)
    drawn = {path.stem for path in pictures.glob("kin-*.webp")}
    there = {each.made.setting for each in kept}
    missing = [setting.name for setting in STUDY.settings if setting.name not in there]
    parts = [INTRODUCTION, *([FINDINGS] if FINDINGS else [])]
    for group in STUDY.groups:
        mine = [each for each in kept if each.made.group == group]
        if mine:
            parts += [GROUPS[group], *_pictures(group, drawn), *_tables(group, mine), _made(mine)]
    if missing:
        parts.append(f"## Not run yet\n\n{', '.join(f'`{name}`' for name in missing)}.\n")
    return "\n".join(parts)


def _pictures(group: str, drawn: set[str]) -> list[str]:
    names = CURVES if group == "main" else [name for name in DOTS if DOTS[name] == group]
    return [f"![{CAPTIONS[name]}](pictures/{name}.webp)\n" for name in names if name in drawn]


def _tables(group: str, kept: Sequence[KeptSetting]) -> list[str]:
    return [
        markdown(each) for each in group_sheets([one for k in kept for one in k.results], group)
    ]


def _made(kept: Sequence[KeptSetting]) -> str:
    """Say of each setting in what it departs from the study's own, and where it was made."""
    lines = ["### How these were made\n"]
    for each in kept:
        made = each.made
        seeds = sorted({result.seed for result in each.results})
        first = each.results[0]
        departs = "; ".join(made.departures) or "as the study has it"
        versions = ", ".join(f"{name} {version}" for name, version in made.software.items())
        lines.append(
            f"- `{made.setting}` (`{made.preset}`): {first.rounds} rounds, {first.peers} peers, "
            f"seeds {', '.join(map(str, seeds))}; {departs}. {made.date}, on {made.hardware}; "
            f"{versions}."
        )
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Keep a study if one is named, draw the figures, and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/kin.md.")
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of a study to keep")
    parser.add_argument("--only", help="some settings or groups, separated by commas")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        keep(STUDY, given.folder, KEPT, named_strategies(given.only))
        draw(read(STUDY, KEPT))
    write_text(PAGE, page())


if __name__ == "__main__":
    try:
        main()
    except CoterieError as error:
        sys.exit(f"Error: {error}")
