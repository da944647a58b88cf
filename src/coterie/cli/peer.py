"""`coterie peer`: take part in a network of real peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import errors, out, print_result

app = typer.Typer(
    help="Take part in a network of real peers, with your data and the peers you trust.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Option(help="The peer's folder.")]


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The name that other peers see.")],
    folder: Annotated[
        Path | None,
        typer.Option(help="The folder of the new peer. Default: NAME."),
    ] = None,
) -> None:
    """Create a new peer: its key, its certificate and its settings."""
    from coterie.peer.security.certificates import CERTIFICATE
    from coterie.peer.security.enrolment import SETTINGS, enrol

    identity, made = enrol(name, folder)
    print_result(f"The new peer {identity.name} is in the folder {made}. Its id is")
    print_result(identity.peer_id)
    print_result("Next steps:")
    print_result(f"1. Send {made / CERTIFICATE} to the other owners, but never the key.")
    print_result("2. Compare ids with them, theirs and yours, for example by phone.")
    print_result(f"3. Trust each of their certificates: coterie peer trust FILE --folder {made}")
    print_result(f"4. Set your data and your model in {made / SETTINGS}.")


@app.command()
def trust(
    file: Annotated[Path, typer.Argument(help="The certificate of another peer.")],
    folder: Folder = Path(),
) -> None:
    """Trust another peer: it may fetch this peer's models, and this peer may merge its models."""
    from coterie.peer.security.enrolment import trust as trust_file

    trusted = trust_file(file, folder)
    state = "is trusted now" if trusted.is_new else "was trusted already"
    print_result(f"{trusted.certificate.name} {state}. Its id is")
    print_result(trusted.certificate.peer_id)
    if trusted.is_new:
        print_result("Compare this id with the owner of the peer. If it differs, undo this with:")
        print_result(f"coterie peer untrust {trusted.certificate.peer_id[:16]} --folder {folder}")


@app.command()
def untrust(
    peer: Annotated[
        str, typer.Argument(help="Its name, the beginning of its id, or its certificate file.")
    ],
    folder: Folder = Path(),
) -> None:
    """Stop trusting another peer. This takes effect at once, even while this peer is running."""
    from coterie.peer.security.enrolment import untrust as untrust_peer

    certificate = untrust_peer(peer, folder)
    print_result(f"{certificate.name} is not trusted any more. Its id is")
    print_result(certificate.peer_id)


@app.command(name="id")
def show_id(folder: Folder = Path()) -> None:
    """Show this peer's id, with which others check that a certificate is really from it."""
    from coterie.peer.security.identity import load_certificate

    print_result(load_certificate(folder).peer_id)


@app.command()
def run(
    path: Annotated[
        Path, typer.Argument(metavar="PEER", help="The peer's folder, or its peer.yaml.")
    ] = Path(),
) -> None:
    """Run a peer: train on its data and merge models of other peers, until stopped."""
    from coterie.peer.stop_request import stoppable

    def tell(line: str) -> None:
        errors.print(line, soft_wrap=True, markup=False)

    with stoppable(path if path.is_dir() else path.parent, tell) as request:
        with request.loading():
            from coterie.peer.process import run_peer

        run_peer(path, tell, request)


@app.command()
def status(
    folder: Folder = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show the status of a peer: whether it runs, its round, and the peers it knows."""
    from coterie.peer.status import status_json, status_table

    if as_json:
        typer.echo(status_json(folder))
    else:
        out.print(status_table(folder))
