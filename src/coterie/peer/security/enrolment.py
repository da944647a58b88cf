"""Creating a peer and choosing the peers to trust: `coterie peer init`, `trust` and `untrust`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import ConfigError, StorageError, suggest
from coterie.peer.security.certificates import Certificate, read_certificate, read_small_file
from coterie.peer.security.identity import Identity, create_identity, load_certificate
from coterie.peer.security.trust import TrustStore
from coterie.storage.files import make_folder, write_text

SETTINGS = "peer.yaml"
SHORTEST_PREFIX = 8
"""Shortest beginning of an id, in hex digits, that may stand for a peer."""
TEMPLATE = """\
# The settings of one peer; `coterie peer run` starts it. Lines that begin with # show the
# default or an example.

# The address to listen at. Others must be able to reach it; if by another address, advertise that.
listen: 0.0.0.0:7300
# advertise: clinic.example.org:7300

# Addresses of a few peers, to find the others. This peer talks only to peers you trust.
known: []
# known: [192.0.2.7:7300, "[2001:db8::7]:7300"]

# Your data, which stay on this computer: an .npz file with train_images, train_labels, test_images
# and test_labels, optionally validation_images and validation_labels; or a function that returns a
# coterie.PeerData.
data:
  file: data.npz
  # function: my_module:my_data

# The model, the same for all peers: one of `coterie list`, or a function that returns a torch
# module.
model:
  name: fashion-cnn
  # function: my_module:my_model

# How to choose the peers to train with; see `coterie list`.
strategy:
  name: kin

# Number of rounds; without it, the peer runs until stopped.
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
#     fetch_seconds: 60.0    # a model that arrives later is not merged in this round
"""


@dataclass(frozen=True)
class TrustResult:
    """The result of `trust`."""

    certificate: Certificate
    is_new: bool
    """Whether the peer was not trusted before."""


def enrol(name: str, folder: Path | None = None) -> tuple[Identity, Path]:
    """Create the folder of a new peer; return its identity and the folder."""
    folder = _folder_for(name) if folder is None else folder
    identity = create_identity(folder, name)
    make_folder(TrustStore(folder).folder)
    settings = folder / SETTINGS
    if not settings.exists():
        write_text(settings, TEMPLATE)
    return identity, folder


def trust(file: Path, folder: Path) -> TrustResult:
    """Trust the owner of a certificate from now on."""
    load_certificate(folder)  # refuses a folder that is not a peer's
    store = TrustStore(folder)
    before = store.certificates()
    certificate = store.add(_read(file), str(file))
    return TrustResult(certificate, is_new=certificate.peer_id not in before)


def untrust(named: str, folder: Path) -> Certificate:
    """Stop trusting a peer, named by its certificate's file, its name or its id."""
    load_certificate(folder)
    store = TrustStore(folder)
    certificate = _find(named, list(store.certificates().values()))
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
            f"Cannot read {file}: {error.strerror or error}. Expected the file certificate.pem "
            "that the other peer's owner made with `coterie peer init`."
        ) from error


def _find(named: str, trusted: list[Certificate]) -> Certificate:
    file = Path(named)
    if file.is_file():
        wanted = read_certificate(_read(file), named).peer_id
        found = [each for each in trusted if each.peer_id == wanted]
    else:
        found = [each for each in trusted if named == each.name or _begins(each.peer_id, named)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = "\n".join(f"  {each.peer_id}  {each.name}" for each in found)
        raise ConfigError(f"'{named}' matches several trusted peers. Name one by its id:\n{ids}")
    if not trusted:
        raise ConfigError(f"'{named}' is not trusted: this peer trusts no other peer yet.")
    raise ConfigError(
        f"'{named}' is not trusted. Expected a name, at least {SHORTEST_PREFIX} digits of an id, "
        f"or a file.{suggest(named, {each.name for each in trusted})}"
    )


def _begins(peer_id: str, prefix: str) -> bool:
    digits = re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}", prefix.lower())
    return digits is not None and peer_id.startswith(prefix.lower())
