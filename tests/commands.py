"""The command line as a user meets it: in this process where that is enough, else in its own."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.main

from coterie.cli.main import main

# A short run of one strategy.
RANDOM = ("--strategy", "random", "--set", "strategy.fetches=2")
SMALL = ("--peers", 8, "--rounds", 2, "--threads", 1, *RANDOM)
# Typer makes all commands again at each call, which takes a tenth of a second.
made_once = cache(typer.main.get_command)
# What no message to a user may contain.
JARGON = (
    "Traceback",
    "pydantic",
    "Input tag",
    "discriminator",
    "extract fields",
    "instance of",
    "not iterable",
    "indices must",
    "[Errno",
    "allow_pickle",
)


@dataclass(frozen=True)
class Answer:
    """What a command left behind: its exit code and what it printed."""

    code: int
    out: str
    err: str


def coterie(*arguments: object) -> Answer:
    """Run the real command line in this process; whatever escapes it fails the test."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(typer.main, "get_command", made_once)
        patch.setattr(sys, "argv", ["coterie", *map(str, arguments)])
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Answer(code, out.getvalue(), err.getvalue())


def start(
    *arguments: object,
    ignored: Sequence[int] = (),
    in_own_group: bool = False,
    module: str = "coterie",
) -> subprocess.Popen[str]:
    """Start the command line in a process of its own, which inherits some signals as ignored."""
    program = [sys.executable, "-m", module, *map(str, arguments)]
    if ignored:
        trap = f"trap '' {' '.join(str(int(number)) for number in ignored)}"
        program = ["sh", "-c", f'{trap}; exec "$@"', "sh", *program]
    return subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=in_own_group,
    )


def end(process: subprocess.Popen[str]) -> Answer:
    """Wait for a started command."""
    out, err = process.communicate(timeout=120)
    return Answer(process.returncode, out, err)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder and its subfolders."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def plain(text: str) -> str:
    """Return a message without the frame some are printed in and without line breaks."""
    return " ".join(text.replace("│", " ").split())


def refused(answer: Answer, code: int, *parts: object) -> str:
    """Check that there is one message of this exit code with all these parts; return it."""
    message = plain(answer.err)
    assert answer.code == code, answer
    for part in parts:
        assert str(part) in message
    for word in JARGON:
        assert word not in message
    assert message.count("Error") == 1
    assert answer.out == ""
    return message


def run_with(tmp_path: Path, *changes: str) -> Answer:
    """Run digits with settings changed by --set."""
    options = [part for change in changes for part in ("--set", change)]
    return coterie("run", *SMALL, *options, "--out", tmp_path / "out")


def results(folder: Path) -> dict[str, bytes]:
    """Return what must not depend on interruptions."""
    names = ("metrics", "exchanges", "neighbours")
    files = [f"{name}.parquet" for name in names] + ["models.safetensors"]
    return {name: (folder / "random-seed0" / name).read_bytes() for name in files}
