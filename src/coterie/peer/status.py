"""The status of a peer, as `coterie peer status` prints it."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rich.table import Table
from rich.text import Text

from coterie.peer.peer_run import PeerStatus, read_status
from coterie.peer.security.identity import load_certificate
from coterie.peer.security.trust import TrustStore
from coterie.storage.files import is_locked


def status_json(folder: Path) -> str:
    """Return the status of the peer in a folder as JSON; null if it has never run."""
    found = read_status(folder)
    is_running = is_locked(folder)
    status = None if found is None else {**asdict(found), "running": is_running}
    return json.dumps(status, indent=2)


def status_table(folder: Path) -> Table:
    """Return the status of the peer in a folder as a table of names and values."""
    certificate = load_certificate(folder)
    found = read_status(folder)
    table = Table(title=certificate.name, title_justify="left", show_header=False, box=None)
    rows = {
        "id": certificate.peer_id,
        "certificate": f"valid until {certificate.not_after:%Y-%m-%d}",
        "trusts": _trusted(folder),
        "state": _state(found, is_running=is_locked(folder)),
    }
    for name, value in (rows | ({} if found is None else _progress(found))).items():
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _trusted(folder: Path) -> str:
    names = [certificate.name for certificate in TrustStore(folder).certificates().values()]
    return f"{len(names)}: {', '.join(sorted(names))}" if names else "no peer yet"


def _state(found: PeerStatus | None, *, is_running: bool) -> str:
    if found is None:
        return "starting" if is_running else "has never run"
    if is_running:
        return f"{found.state}, process {found.process}, at {found.address or 'no address yet'}"
    # A killed peer could not write its end.
    return found.state if found.state in ("finished", "stopped") else "ended unexpectedly"


def _progress(found: PeerStatus) -> dict[str, str]:
    rounds = "until stopped" if found.rounds is None else f"of {found.rounds}"
    scores = {
        "validation": found.validation_score,
        "test of the best model": found.test_score,
    }
    when = datetime.fromtimestamp(found.updated).astimezone()
    return {
        "round": f"{found.round} {rounds}" if found.round >= 0 else "none yet",
        **{
            f"{name}, {found.score.name}": found.score.format(value)
            for name, value in scores.items()
            if value is not None
        },
        **({} if found.validation_loss is None else {"loss": f"{found.validation_loss:.4g}"}),
        "reachable peers": str(found.num_known),
        "models in the last round": str(found.num_fetched),
        "refused": _counts(found.refused),
        "not received": _counts(found.failures),
        "updated": f"{when:%Y-%m-%d %H:%M:%S}",
    }


def _counts(counts: object) -> str:
    items = dict(counts).items() if isinstance(counts, dict) else ()
    return ", ".join(f"{count} × {reason}" for reason, count in items) or "nothing"
