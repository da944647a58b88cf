"""Calls the command line and the library in this process, and returns exit codes."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Callable

from coterie.cli.main import main
from coterie.errors import CoterieError, Interrupted

Call = tuple[str, Callable[[], tuple[int, str]]]
"""What is tried, and how: it returns an exit code and what was said."""


def command(*arguments: object) -> tuple[int, str]:
    """Run the command line in this process; return its exit code and what it wrote."""
    # Not StringIO, which takes text that no terminal or file can hold.
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, code = sys.argv, 0
    sys.argv = ["coterie", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        for stream in (out, err):
            stream.flush()
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    text = b"".join(stream.buffer.getvalue() for stream in (out, err))
    return code, text.decode(errors="replace")


def library(call: Callable[[], object]) -> tuple[int, str]:
    """Call something of the library; return what would be the exit code, and the error."""
    try:
        call()
    except (CoterieError, Interrupted) as error:
        return error.exit_code, f"Error: {error}"
    return 0, ""
