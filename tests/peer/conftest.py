"""Three peers, and what a fourth one trusts."""

from __future__ import annotations

import pytest

from coterie.peer.security.identity import Identity, create_identity
from coterie.peer.security.trust import TrustStore


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> dict[str, Identity]:
    folder = tmp_path_factory.mktemp("people")
    return {name: create_identity(folder / name, name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def store(tmp_path) -> TrustStore:
    create_identity(tmp_path, "me")
    return TrustStore(tmp_path)
