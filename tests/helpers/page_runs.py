"""Running what stands on a page, block after block, in one folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import coterie, end, start
from pages import Block, all_blocks, blocks

from coterie.strategies import STRATEGIES
from coterie.swarm.peer_folders import free_ports

# Readers run experiments in full; whether a command works, a few rounds tell as well.
FEW = ("--rounds", "3", "--threads", "1")
SHORTER = {
    "run": FEW,
    "sweep": FEW,
    "resume": ("--threads", "1"),
    "swarm": ("--rounds", "3"),
}
MOST_SEEDS = 2
# Readers have these ports to themselves; tests take any that are free.
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")


class PageRun:
    """A page being worked through by a reader: its folder, and the names Python knows by then."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "page"}
        self.started: list[subprocess.Popen[str]] = []
        ports = sorted(set(PORT.findall(page.read_text())))
        self.ports = dict(zip(ports, free_ports(len(ports)), strict=True))

    def run(self) -> None:
        """Write its files, run its tests and its other blocks, all in the order of the page."""
        known = dict(STRATEGIES)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.syspath_prepend(str(self.folder))
            try:
                for block in all_blocks(self.page):
                    self._run_block(block)
                self._wait()  # no shell of a reader's would leave them behind either
            finally:
                for process in self.started:
                    process.kill()
                    process.communicate()
                # A reader's own strategies are unknown to the tests that follow.
                STRATEGIES.clear()
                STRATEGIES.update(known)
                for block in blocks(self.page, "python"):
                    sys.modules.pop((block.file or "").removesuffix(".py"), None)

    def _run_block(self, block: Block) -> None:
        if block.why:
            return
        if block.file:
            self._write(block.file, block.text)
            return
        if block.language == "python":
            self._run_python(block)
        if block.language == "bash":
            for words in block.commands:
                self._run_command(words)

    def _write(self, file: str, text: str) -> None:
        """Save a file as a reader does: where its folder is not there yet, that is a mistake."""
        if file.endswith(".yaml"):
            text = PORT.sub(lambda port: str(self.ports[port[0]]), text)
        (self.folder / file).write_text(text)
        if file.startswith("test_"):
            assert "1 passed" in python(self.folder, "-m", "pytest", "-p", "no:xdist", file)

    def _run_python(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, self.page.name, "exec"), self.names)  # noqa: S102
        if block.promised:
            numbers = re.findall(r"\d+\.\d+", printed.getvalue())
            assert [float(each) for each in numbers] == pytest.approx(block.promised, abs=0.04)

    def _run_command(self, words: list[str]) -> None:
        match words:
            case ["coterie", *arguments, "&"]:
                self.started.append(start(*arguments))
            case ["wait"]:
                self._wait()
            case ["coterie", *arguments] if not needs_process(arguments):
                answer = coterie(*shortened(arguments))
                assert answer.code == 0, (words, answer)
            case ["coterie", *arguments]:
                python(self.folder, "-m", "coterie", *shortened(arguments))
            case ["python", script, *arguments]:
                python(self.folder, script, *shortened(arguments))
            case _:
                pytest.fail(f"{words[0]} cannot be run here; say why: <!-- not run: … -->")

    def _wait(self) -> None:
        while self.started:
            answer = end(self.started[0])
            self.started.pop(0)
            assert answer.code == 0, answer


def needs_process(arguments: list[str]) -> bool:
    """Say whether a command forks, or has threads that others must not fork away from."""
    return "--watch" in arguments or arguments[0] == "swarm" or arguments[:2] == ["peer", "run"]


def shortened(arguments: list[str]) -> list[str]:
    """Return the arguments of a command such that it takes seconds."""
    shorter = [*arguments, *SHORTER.get("".join(arguments[:1]), ())]
    if "--seeds" in shorter:
        place = shorter.index("--seeds") + 1
        shorter[place] = str(min(int(shorter[place]), MOST_SEEDS))
    return shorter


def write_files(page: Path, folder: Path) -> list[str]:
    """Write the files of a page; return their names."""
    files = {block.file: block.text for block in blocks(page, "python") if block.file}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return list(files)


def python(folder: Path, *arguments: str, cwd: Path | None = None) -> str:
    """Run Python beside the files of a page; return what it printed."""
    # Where the tests find Coterie, its processes find it too.
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
