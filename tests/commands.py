"""The command line as a user meets it: in this process where that is enough, else in its own."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from coterie.cli import main


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
    handler = signal.getsignal(signal.SIGINT)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["coterie", *map(str, arguments)])
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            signal.signal(signal.SIGINT, handler)
    return Answer(code, out.getvalue(), err.getvalue())


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "coterie.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> Answer:
    """Wait for a started command."""
    out, err = process.communicate(timeout=120)
    return Answer(process.returncode, out, err)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder and its subfolders."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
