"""The identity of a peer: its private key, and a self-signed certificate that others can trust."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from coterie.errors import ConfigError, StorageError
from coterie.peer.security.certificates import (
    CERTIFICATE,
    DAMAGE,
    KEY,
    LARGEST_NAME_BYTES,
    SIGNATURE,
    Certificate,
    Unusable,
    clean_name,
    id_of_key,
    make_self_signed,
    parse_certificate,
    read_small_file,
)
from coterie.peer.types import PeerKey
from coterie.storage.files import lock_folder, make_folder, write_text

CLOCK_TOLERANCE = timedelta(days=1)
"""Tolerance for slow clocks of others when a new certificate is first shown."""
_START_AGAIN = "create a new peer with `coterie peer init NAME`, which the others must then trust."


@dataclass(frozen=True)
class Identity:
    """A peer's certificate with its key."""

    certificate: Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @property
    def peer_id(self) -> PeerKey:
        """The id in hex."""
        return self.certificate.peer_id

    @property
    def name(self) -> str:
        """The peer's name."""
        return self.certificate.name

    @property
    def certificate_pem(self) -> bytes:
        """The certificate, for TLS and for others."""
        return self.certificate.pem

    @property
    def key_pem(self) -> bytes:
        """The key, for TLS only."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, data: bytes) -> bytes:
        """Sign data: ECDSA with SHA-256, DER."""
        return self.key.sign(data, SIGNATURE)


def create_identity(
    folder: Path, name: str, *, valid_days: int = 3650, not_before: datetime | None = None
) -> Identity:
    """Create a new key and certificate in a folder that has none yet."""
    _check_name(name)
    make_folder(folder)
    with lock_folder(folder):
        for path in (folder / KEY, folder / CERTIFICATE):
            if os.path.lexists(path):
                raise ConfigError(
                    f"There is already a {path.name} in {folder}; a new one would make this "
                    "another peer. Choose another folder with --folder, or move "
                    f"{KEY} and {CERTIFICATE} away first if that is what you want."
                )
        key = ec.generate_private_key(ec.SECP256R1())
        start = not_before or datetime.now(UTC) - CLOCK_TOLERANCE
        end = (not_before or datetime.now(UTC)) + timedelta(days=valid_days)
        certificate = parse_certificate(make_self_signed(key, name, start, end))
        identity = Identity(certificate, key)
        write_text(folder / KEY, identity.key_pem.decode(), private=True)
        try:
            write_text(folder / CERTIFICATE, certificate.pem.decode())
        except StorageError:
            (folder / KEY).unlink(missing_ok=True)  # unknown to others, so the user can try again
            raise
    return identity


def load_identity(folder: Path) -> Identity:
    """Read a peer's key and certificate, and refuse invalid ones."""
    certificate = load_certificate(folder)
    key = _load_key(folder / KEY)
    if id_of_key(key.public_key()) != certificate.peer_id:
        raise ConfigError(
            f"{folder / KEY} and {folder / CERTIFICATE} do not belong together: the certificate is "
            f"for another key. Restore both from the same backup, or {_START_AGAIN}"
        )
    if not certificate.is_valid:
        raise ConfigError(
            f"{folder / CERTIFICATE} is {certificate.validity}, but now it is "
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. If the clock is right, {_START_AGAIN}"
        )
    return Identity(certificate, key)


def load_certificate(folder: Path) -> Certificate:
    """Read the certificate of a peer's folder; it may have expired."""
    path = folder / CERTIFICATE
    try:
        return parse_certificate(_read_file(path))
    except Unusable as problem:
        raise ConfigError(
            f"{path} cannot be used: {problem}. Restore {KEY} and {CERTIFICATE} from a backup, or "
            f"{_START_AGAIN}"
        ) from problem


def _read_file(path: Path, *, private: bool = False) -> bytes:
    """Read the key or the certificate of a peer's folder; a private file must have mode 0600."""
    try:
        if private:
            _check_mode(path)
        return read_small_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(
            f"{path.parent} is not the folder of a peer: there is no {path.name}. Create a peer "
            "with `coterie peer init NAME`, or name its folder with --folder."
        ) from None
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror or error}. The user that runs the peer must be "
            "able to read it; a peer does not start without it."
        ) from error


def _check_mode(path: Path) -> None:
    mode = path.stat().st_mode
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigError(
            f"{path} has mode {stat.S_IMODE(mode):04o}: other users of this computer can read or "
            f"change the key, so it is not used. Expected 0600. Run `chmod 600 {path}` if no other "
            f"user has read it; otherwise {_START_AGAIN}"
        )


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    content = _read_file(path, private=True)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        problem = "it is protected by a password, which a peer cannot enter when it starts"
    except DAMAGE:
        problem = "it is not a key in PEM"
    else:
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            return key
        problem = "it is not an ECDSA key on the curve P-256"
    raise ConfigError(
        f"{path} cannot be used: {problem}. Restore {KEY} and {CERTIFICATE} from a backup, or "
        f"{_START_AGAIN}"
    )


def _check_name(name: str) -> None:
    size = len(name.encode(errors="replace"))
    if not 0 < size <= LARGEST_NAME_BYTES or clean_name(name) != name:
        raise ConfigError(
            f"'{clean_name(name)}' cannot be the name of a peer. Expected 1 to "
            f"{LARGEST_NAME_BYTES} bytes of printable text without spaces around it, such as "
            "'north-clinic'."
        )
