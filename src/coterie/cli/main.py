"""The command line: one file per command beside this one.

Exit codes: 0 done · 2 a setting cannot work · 3 data missing or damaged · 4 a file cannot be
written or read · 5 training diverged · 6 a strategy broke the rules · 130 stopped by Ctrl-C,
SIGTERM or SIGHUP.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated

import typer
from rich.markup import escape

from coterie import __version__
from coterie.cli.analyse import analyse
from coterie.cli.bench import bench
from coterie.cli.compare import compare
from coterie.cli.console import errors
from coterie.cli.data import data
from coterie.cli.export import export
from coterie.cli.figures import figures
from coterie.cli.list import list_everything
from coterie.cli.papers import papers
from coterie.cli.peer import app as peer
from coterie.cli.report import report
from coterie.cli.resume import resume
from coterie.cli.run import run
from coterie.cli.study import study
from coterie.cli.swarm import swarm
from coterie.cli.sweep import sweep
from coterie.cli.usage_errors import UsageError, explain_usage_error
from coterie.cli.watch import watch
from coterie.errors import ConfigError, CoterieError, Interrupted
from coterie.processes.signals import interrupted_by_signals

app = typer.Typer(
    help="Personalised decentralised deep learning.",
    epilog="Exit codes: 0 done, 2 setting, 3 data, 4 storage, 5 training, 6 strategy, 130 Ctrl-C,"
    " SIGTERM or SIGHUP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "swarm": swarm,
    "sweep": sweep,
    "study": study,
    "resume": resume,
    "watch": watch,
    "compare": compare,
    "analyse": analyse,
    "report": report,
    "figures": figures,
    "papers": papers,
    "export": export,
    "list": list_everything,
    "data": data,
    "bench": bench,
}
for name, command in COMMANDS.items():
    app.command(name=name)(command)
app.add_typer(peer, name="peer")


def main() -> None:
    """Run the command line; users' errors become one message and an exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Names of folders may not be valid text, and some terminals lack some letters.
        sys.stdout.reconfigure(errors="backslashreplace")
    with interrupted_by_signals():
        try:
            _run_command()
        except (CoterieError, Interrupted) as error:
            with suppress(OSError):  # a closed terminal takes no message
                _show(error)
            sys.exit(error.exit_code)


def _run_command() -> None:
    """Run the requested command; exit with its code if that is not 0."""
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        raise Interrupted("Stopped.") from None
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(str(error), err=True)
            sys.exit(ConfigError.exit_code)
        raise explain_usage_error(error) from None
    if code:
        sys.exit(code)


def _show(error: CoterieError | Interrupted) -> None:
    prefix = "" if isinstance(error, Interrupted) else "[bold red]Error:[/] "
    errors.print(f"{prefix}{escape(str(error))}", soft_wrap=True, highlight=False)
    for note in getattr(error, "__notes__", []):
        errors.print(escape(note), soft_wrap=True, highlight=False)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"coterie {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Global options."""
