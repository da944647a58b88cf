"""The certificates that a peer trusts: one file each in its folder `trusted`.

To trust a peer is to add its file; to revoke trust is to delete it. Neither needs a restart.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from coterie.errors import ConfigError, CoterieError
from coterie.peer.security.certificates import (
    CERTIFICATE,
    Certificate,
    Unusable,
    clean_name,
    parse_certificate,
    read_certificate,
    read_small_file,
)
from coterie.peer.security.identity import load_certificate
from coterie.peer.types import PeerKey
from coterie.storage.files import PARTIAL, make_folder, remove_files, write_text

TRUSTED = "trusted"
ENDING = ".pem"
LOOK_AGAIN_SECONDS = 0.2
"""Reading 100 files takes longer than a call may cost, so not every call reads them."""
_log = logging.getLogger(__name__)


class _Mark(NamedTuple):
    """Properties that change with a file, even within one tick of the file system's clock."""

    name: str
    modified: int
    changed: int
    size: int
    inode: int


_FOLDER = _Mark("", 0, 0, 0, 0)
"""Stands for the folder itself where it cannot be read."""


@dataclass(frozen=True)
class _View:
    """The content of the folder at one time."""

    looked_at: float = -math.inf
    certificates: Mapping[PeerKey, Certificate] = field(default_factory=dict)
    roots: bytes = b""


class TrustStore:
    """The certificates in the folder `trusted` of a peer's folder; safe for threads.

    Changes made through this class apply at once, changes to the files within 0.2 s.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / TRUSTED
        self._own_folder = folder
        self._own: PeerKey | None = None
        self._lock = threading.Lock()
        self._known: dict[_Mark, Certificate] = {}
        self._warned: set[_Mark] = set()
        self._view = _View()

    def certificates(self) -> Mapping[PeerKey, Certificate]:
        """Return all certificates by id, also expired ones."""
        return self._look().certificates

    def get(self, peer_id: PeerKey) -> Certificate | None:
        """Return a peer's certificate, expired or not."""
        return self.certificates().get(peer_id)

    def is_trusted(self, peer_id: PeerKey) -> bool:
        """Return whether a peer is trusted now."""
        certificate = self.get(peer_id)
        return certificate is not None and certificate.is_valid

    def roots(self) -> bytes:
        """Return all certificates as one PEM, for TLS; empty if no peer is trusted."""
        return self._look().roots

    def add(self, pem: bytes, what: str = "The certificate") -> Certificate:
        """Trust a peer from now on; `what` names the certificate in errors."""
        certificate = read_certificate(pem, what)
        if certificate.peer_id == self._own_id():
            raise ConfigError(
                f"{what} is this peer's own. Give it to the owners of other peers, and trust the "
                "certificates that they give you."
            )
        if not certificate.is_valid:
            raise ConfigError(
                f"{what} is {certificate.validity}, so it is not valid now. Ask its owner for a "
                "new one, or set the clock."
            )
        make_folder(self.folder)
        write_text(self._path(certificate.peer_id), certificate.pem.decode())
        self._look_again()
        return certificate

    def remove(self, peer_id: PeerKey) -> None:
        """Stop trusting a peer."""
        self._look_again()
        if peer_id not in self.certificates():
            raise ConfigError(f"{clean_name(peer_id)} is not a trusted peer.")
        remove_files([self._path(peer_id)])
        self._look_again()

    def _path(self, peer_id: PeerKey) -> Path:
        return self.folder / f"{peer_id}{ENDING}"

    def _own_id(self) -> PeerKey | None:
        if self._own is None and (self._own_folder / CERTIFICATE).exists():
            self._own = load_certificate(self._own_folder).peer_id
        return self._own

    def _look_again(self) -> None:
        with self._lock:
            self._view = _View()

    def _look(self) -> _View:
        view = self._view
        if time.monotonic() - view.looked_at < LOOK_AGAIN_SECONDS:
            return view
        with self._lock:
            now = time.monotonic()
            # Unreadable files are tried again each time: the problem may be temporary.
            marks = self._marks()
            found = ((mark, self._known.get(mark) or self._read(mark)) for mark in marks)
            self._known = {mark: known for mark, known in found if known is not None}
            self._warned &= {*marks, _FOLDER}
            certificates = {each.peer_id: each for each in self._known.values()}
            roots = b"".join(each.pem for each in certificates.values())
            self._view = _View(now, MappingProxyType(certificates), roots)
            return self._view

    def _marks(self) -> list[_Mark]:
        """Return the files of the folder in a fixed order; none if it cannot be read."""
        try:
            with os.scandir(self.folder) as entries:
                marks = [
                    _mark(each)
                    for each in entries
                    if not each.name.startswith(".") and not each.name.endswith(PARTIAL)
                ]
        except OSError as error:
            self._warn(_FOLDER, self.folder, error.strerror or str(error))
            return []
        self._warned.discard(_FOLDER)
        return sorted(marks)

    def _read(self, mark: _Mark) -> Certificate | None:
        """Return the certificate in a file; None, with a warning, if it cannot be used."""
        path = self.folder / mark.name
        try:
            if not path.is_file():
                raise Unusable("it is not a file")
            certificate = parse_certificate(read_small_file(path))
            if path != self._path(certificate.peer_id):
                raise Unusable(
                    "its name is not the id of its key. Use `coterie peer trust` instead of "
                    "copying files"
                )
            if certificate.peer_id == self._own_id():
                raise Unusable("it is this peer's own")
        except OSError as error:
            self._warn(mark, path, error.strerror or str(error))
        except (Unusable, CoterieError) as problem:
            self._warn(mark, path, str(problem))
        else:
            return certificate
        return None

    def _warn(self, mark: _Mark, path: Path, problem: str) -> None:
        """Warn once about a file, until it changes."""
        if mark not in self._warned:
            self._warned.add(mark)
            _log.warning("%s cannot be trusted: %s.", ascii(str(path)), problem.rstrip("."))


def _mark(entry: os.DirEntry[str]) -> _Mark:
    try:
        about = entry.stat()
    except OSError:  # such as a broken link: reading it gives the warning
        return _Mark(entry.name, 0, 0, 0, 0)
    times = about.st_mtime_ns, about.st_ctime_ns
    return _Mark(entry.name, *times, about.st_size, about.st_ino)
