"""`coterie peer`: take part in a network of real peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import console

app = typer.Typer(
    help="Take part in a network of real peers: on your data, with those you trust.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Option(help="The peer's folder.")]


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="What others see this peer called.")],
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the peer is made; a new folder NAME when not given."),
    ] = None,
) -> None:
    """Make a new peer: its key, its certificate and its settings."""
    from coterie.peer.security.certificates import CERTIFICATE
    from coterie.peer.security.enrolment import SETTINGS, enrol

    identity, made = enrol(name, folder)
    _say(f"{made} is the folder of the new peer {identity.name}. Its id is")
    _say(identity.peer_id)
    _say("What to do next:")
    _say(f"1. Send {made / CERTIFICATE} to the others, over a channel you trust; never the key.")
    _say("2. Compare ids with them, such as by phone: theirs and yours.")
    _say(f"3. Trust each of theirs: coterie peer trust FILE --folder {made}")
    _say(f"4. Name your data and your model in {made / SETTINGS}.")


@app.command()
def trust(
    file: Annotated[Path, typer.Argument(help="The certificate of another peer.")],
    folder: Folder = Path(),
) -> None:
    """Trust another peer: it may fetch my models, and I merge its."""
    from coterie.peer.security.enrolment import trust as trust_file

    trusted = trust_file(file, folder)
    word = "is trusted now" if trusted.is_new else "was trusted already"
    _say(f"{trusted.certificate.name} {word}. Its id is")
    _say(trusted.certificate.peer_id)
    if trusted.is_new:
        _say("If its owner reads you another id, such as by phone, take it back:")
        _say(f"coterie peer untrust {trusted.certificate.peer_id[:16]} --folder {folder}")


@app.command()
def untrust(
    who: Annotated[str, typer.Argument(help="Its name, the beginning of its id, or a file.")],
    folder: Folder = Path(),
) -> None:
    """Trust another peer no longer; this counts at once, also while my peer is running."""
    from coterie.peer.security.enrolment import untrust as untrust_peer

    certificate = untrust_peer(who, folder)
    _say(f"{certificate.name} is not trusted any more. Its id is")
    _say(certificate.peer_id)


@app.command(name="id")
def show_id(folder: Folder = Path()) -> None:
    """Show this peer's id, by which the others can tell that a certificate is really its."""
    from coterie.peer.security.identity import load_certificate

    _say(load_certificate(folder).peer_id)


@app.command()
def run(
    path: Annotated[
        Path, typer.Argument(metavar="PEER", help="The peer's folder, or its peer.yaml.")
    ] = Path(),
) -> None:
    """Take part: train on my data, and with those of whom it is worth it, until stopped."""
    from coterie.peer.stop_request import stoppable

    def tell(line: str) -> None:
        console.errors.print(line, soft_wrap=True, markup=False)

    with stoppable(path if path.is_dir() else path.parent, tell) as request:
        with request.loading():
            from coterie.peer.process import run_peer

        run_peer(path, tell, request)


@app.command()
def status(
    folder: Folder = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say how a peer is doing: whether it runs, how far it is, and whom it knows."""
    from coterie.peer.status import status_json, status_table

    if as_json:
        typer.echo(status_json(folder))
    else:
        console.out.print(status_table(folder))


def _say(line: str) -> None:
    console.out.print(line, soft_wrap=True, highlight=False, markup=False)
