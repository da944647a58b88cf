"""Reading the pages of the documentation: their blocks of code and their command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Blocks may stand in a list, then all their lines are indented alike.
FENCE = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"((?:coterie|make|python|\.venv/bin/python) .+)")


def named(path: Path) -> str:
    """Return what a page is called in tests."""
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    language: str
    text: str
    why: str | None = None
    """Why it is not run, if it is not."""

    @property
    def file(self) -> str | None:
        """The name of the file it is, if it is one."""
        found = re.match(r"# ([\w/]+\.(?:py|yaml))\n", self.text)
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

    @property
    def commands(self) -> list[list[str]]:
        """Its lines as words of the shell, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        words = (shlex.split(line, comments=True) for line in lines)
        return [each for each in words if each]


def all_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [
        Block(match["language"], _without_indent(match["text"], match["indent"]), match["why"])
        for match in FENCE.finditer(page.read_text())
    ]


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of a page in one language, but for those marked as not run."""
    return [each for each in all_blocks(page) if each.language == language and not each.why]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield every command line on a page: from its blocks, run or not, and `from text`."""
    for block in all_blocks(page):
        if block.language == "bash":
            yield from block.commands
    for line in re.findall(r"`([^`\n]+)`", without_blocks(page)):
        if COMMAND.fullmatch(line) and "…" not in line:
            yield shlex.split(line, comments=True)


def without_blocks(page: Path) -> str:
    """Return the text of a page."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Return where a page links to within the repository, pictures included."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", without_blocks(page))
    return [target for target in targets if not target.startswith("http")]


def _without_indent(text: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
