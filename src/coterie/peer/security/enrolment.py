"""Becoming a peer, and deciding whom to trust: what `coterie peer init`, `trust`, `untrust` do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import ConfigError, StorageError, nearest
from coterie.peer.security.certificates import read_small_file
from coterie.peer.security.identity import (
    Certificate,
    Identity,
    create_identity,
    load_certificate,
    read_certificate,
)
from coterie.peer.security.trust import TrustStore
from coterie.storage.files import make_folder, write_text

SETTINGS = "peer.yaml"
SHORTEST_PREFIX = 8
"""Hex digits of an id that name a peer, if no other begins with them."""
TEMPLATE = """\
# The settings of one peer; `coterie peer run` starts it. What begins with # is as it would be
# without the line, or an example.

# Where to listen. Others must be able to reach it; say how, if by another address.
listen: 0.0.0.0:7300
# advertise: clinic.example.org:7300

# A few peers through whom the others are found. Only those you trust are talked to.
known: []
# known: [192.0.2.7:7300, "[2001:db8::7]:7300"]

# Your data, which stay here: an .npz file with train_images, train_labels, test_images and
# test_labels, if you like also validation_images and validation_labels; or a function that
# returns a coterie.PeerData.
data:
  file: data.npz
  # function: my_module:my_data

# What is trained, the same for all peers: a model of `coterie list`, or a function of yours that
# returns a torch module.
model:
  name: fashion-cnn
  # function: my_module:my_model

# How to find out with whom it is worth training; see `coterie list`.
strategy:
  name: kin

# Rounds to run; without the line, until stopped.
# rounds: 100

# The same for all peers, so that all start from the same weights.
seed: 0

# training:
#   learning_rate: 0.001
#   batch_size: 8

# network:
#   precision: float32       # or bfloat16: half the traffic
#   compression: none        # or zstd
#   deadlines:
#     fetch_seconds: 60.0    # whose model has not come by then is not merged in this round
"""


@dataclass(frozen=True)
class TrustResult:
    """Who is trusted now."""

    certificate: Certificate
    is_new: bool
    """Whether he was not before."""


def enrol(name: str, folder: Path | None = None) -> tuple[Identity, Path]:
    """Make the folder of a new peer; return who it is, and where."""
    folder = _folder_for(name) if folder is None else folder
    identity = create_identity(folder, name)
    make_folder(TrustStore(folder).folder)
    settings = folder / SETTINGS
    if not settings.exists():
        write_text(settings, TEMPLATE)
    return identity, folder


def trust(file: Path, folder: Path) -> TrustResult:
    """Trust the owner of a certificate from now on."""
    load_certificate(folder)  # refuses what is not the folder of a peer
    store = TrustStore(folder)
    before = store.certificates()
    certificate = store.add(_read(file), str(file))
    return TrustResult(certificate, is_new=certificate.peer_id not in before)


def untrust(who: str, folder: Path) -> Certificate:
    """Trust somebody no longer, named by his certificate's file, his name or his id."""
    load_certificate(folder)
    store = TrustStore(folder)
    certificate = _find(who, list(store.certificates().values()))
    store.remove(certificate.peer_id)
    return certificate


def _folder_for(name: str) -> Path:
    if Path(name).name != name or name == "..":
        raise ConfigError(
            f"'{name}' cannot be the name of a folder. Choose another name for the peer, or name "
            "the folder with --folder."
        )
    return Path(name)


def _read(file: Path) -> bytes:
    try:
        return read_small_file(file)
    except OSError as error:
        raise StorageError(
            f"Cannot read {file}: {error.strerror or error}. Expected the file certificate.pem of "
            "whom you want to trust, who has made it with `coterie peer init`."
        ) from error


def _find(who: str, trusted: list[Certificate]) -> Certificate:
    file = Path(who)
    if file.is_file():
        wanted = read_certificate(_read(file), who).peer_id
        found = [each for each in trusted if each.peer_id == wanted]
    else:
        found = [each for each in trusted if who == each.name or _begins(each.peer_id, who)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = "\n".join(f"  {each.peer_id}  {each.name}" for each in found)
        raise ConfigError(f"'{who}' may be each of these. Name one by its id:\n{ids}")
    if not trusted:
        raise ConfigError(f"'{who}' is not trusted, and neither is anybody else.")
    raise ConfigError(
        f"'{who}' is not trusted. Expected a name, at least {SHORTEST_PREFIX} digits of an id, or "
        f"a file.{nearest(who, {each.name for each in trusted})}"
    )


def _begins(peer_id: str, prefix: str) -> bool:
    digits = re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}", prefix.lower())
    return digits is not None and peer_id.startswith(prefix.lower())
