"""Reading the pages of the documentation: their blocks of code and their command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>.+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"(?:\$ )?((?:coterie|make|python|\.venv/bin/python) .+)")


def named(path: Path) -> str:
    """Return what a page is called in tests."""
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file it is, if it is one."""
        found = re.match(r"# (\w+\.py)\n", self.text)
        return found[1] if found else None

    @property
    def num_lines(self) -> int:
        """How many lines have something in them."""
        return sum(bool(line.strip()) for line in self.text.splitlines())

    @property
    def promised(self) -> list[float]:
        """The numbers it says it prints."""
        lists = re.findall(r"# about ([\d., ]+)", self.text)
        return [float(number) for each in lists for number in re.findall(r"\d+\.\d+", each)]


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of a page in one language, but for those marked as not run."""
    found = FENCE.finditer(page.read_text())
    return [
        Block(language, match["text"])
        for match in found
        if match["language"] == language and not match["why"]
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield every command line on a page: from blocks without a language, and `from text`."""
    text = page.read_text()
    plain = [match["text"] for match in FENCE.finditer(text) if not match["language"]]
    lines = [line for block in plain for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))]:
        found = COMMAND.fullmatch(line)
        if found and "…" not in line:
            yield shlex.split(found[1], comments=True)


def links(page: Path) -> list[str]:
    """Return where a page links to within the repository."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", FENCE.sub("", page.read_text()))
    return [target for target in targets if not target.startswith("http")]
