"""Who is trusted is what is in the folder, now."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import odd_certificates as odd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.peer.security.identity import create_identity
from coterie.peer.security.trust import TrustStore


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def put(store: TrustStore, name: str, content: bytes) -> None:
    store.folder.mkdir(exist_ok=True)
    (store.folder / name).write_bytes(content)


def warnings_of(caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def look(store: TrustStore, caplog, times: int = 3) -> list[str]:
    """Look several times, each time really at the files; return what was warned of."""
    for _ in range(times):
        store._look_again()
        store.certificates()
    return warnings_of(caplog)


def test_nobody_is_trusted_at_first(store, people):
    assert dict(store.certificates()) == {}
    assert store.roots() == b""
    assert not store.is_trusted(people["alice"].peer_id)


def test_whoever_is_added_is_trusted_by_everybody_who_looks(store, people, tmp_path):
    alice = people["alice"]
    assert store.add(alice.certificate_pem) == alice.certificate
    for each in (store, TrustStore(tmp_path)):
        assert each.is_trusted(alice.peer_id)
        assert dict(each.certificates()) == {alice.peer_id: alice.certificate}
        assert each.get(alice.peer_id) == alice.certificate
        assert each.roots() == alice.certificate_pem
    assert not store.is_trusted(people["bob"].peer_id)
    assert [path.name for path in store.folder.iterdir()] == [f"{alice.peer_id}.pem"]


def test_only_the_certificate_itself_is_kept(store, people):
    alice = people["alice"]
    store.add(b"some text\n" + alice.certificate_pem + b"more")
    assert (store.folder / f"{alice.peer_id}.pem").read_bytes() == alice.certificate_pem
    put(store, f"{alice.peer_id}.pem", b"some text\n" + alice.certificate_pem + b"more")
    store._look_again()
    assert store.roots() == alice.certificate_pem


def test_adding_somebody_twice_changes_nothing(store, people):
    for _ in range(2):
        store.add(people["alice"].certificate_pem)
    assert list(store.certificates()) == [people["alice"].peer_id]


def test_whoever_is_removed_is_not_trusted_from_then_on(store, people):
    for each in people.values():
        store.add(each.certificate_pem)
    store.remove(people["bob"].peer_id)
    assert set(store.certificates()) == {people[each].peer_id for each in ("alice", "carol")}
    assert people["bob"].certificate_pem not in store.roots()
    with pytest.raises(ConfigError, match="is not a trusted peer"):
        store.remove(people["bob"].peer_id)


@pytest.mark.parametrize("peer_id", ["../key", "", "*", "\x1b[2J"])
def test_only_ids_can_be_removed(store, people, peer_id, tmp_path):
    with pytest.raises(ConfigError, match="is not a trusted peer") as caught:
        store.remove(peer_id)
    assert str(caught.value).isprintable()
    assert (tmp_path / "key.pem").exists()


def test_revocation_by_another_process_is_seen_without_a_restart(store, people, tmp_path):
    alice, other = people["alice"], TrustStore(tmp_path)
    store.add(alice.certificate_pem)
    assert store.is_trusted(alice.peer_id)
    other.remove(alice.peer_id)
    wait_for(lambda: not store.is_trusted(alice.peer_id))
    assert store.roots() == b""
    other.add(alice.certificate_pem)
    wait_for(lambda: store.is_trusted(alice.peer_id))


def test_a_change_is_seen_also_within_a_tick_of_the_file_system(store, people):
    """Two changes that leave the folder's and the file's time of change as they were."""
    alice, bob = people["alice"], people["bob"]
    store.add(alice.certificate_pem)
    file = store.folder / f"{alice.peer_id}.pem"
    times = [(path, path.stat()) for path in (file, store.folder)]
    store.certificates()
    file.rename(file.with_name(f"{bob.peer_id}.pem"))
    file.with_name(f"{bob.peer_id}.pem").write_bytes(bob.certificate_pem)
    for path, about in ((file.with_name(f"{bob.peer_id}.pem"), times[0][1]), times[1]):
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    wait_for(lambda: set(store.certificates()) == {bob.peer_id})
    assert not store.is_trusted(alice.peer_id)


def test_my_own_certificate_is_not_trusted(store, tmp_path, caplog):
    own = (tmp_path / "certificate.pem").read_bytes()
    with pytest.raises(ConfigError, match="this peer's own"):
        store.add(own)
    identity = TrustStore(tmp_path / "elsewhere").add(own)
    put(store, f"{identity.peer_id}.pem", own)
    assert len(look(store, caplog)) == 1
    assert not store.is_trusted(identity.peer_id)


@pytest.mark.parametrize("days", [(-10, -1), (2, 10)])
def test_a_certificate_that_is_not_valid_now_cannot_be_added(store, days):
    with pytest.raises(ConfigError, match="so it is not valid now"):
        store.add(odd.certificate(odd.new_key(), days=days))
    assert dict(store.certificates()) == {}


def test_a_certificate_that_expires_is_not_trusted_any_more(store, tmp_path):
    past = datetime.now(UTC) - timedelta(days=20)
    alice = create_identity(tmp_path / "alice", "alice", valid_days=10, not_before=past)
    put(store, f"{alice.peer_id}.pem", alice.certificate_pem)
    assert store.get(alice.peer_id) == alice.certificate
    assert not store.is_trusted(alice.peer_id)


def test_bad_certificates_are_not_added(store):
    with pytest.raises(ConfigError, match=r"friend.pem cannot be used: .* authority"):
        store.add(odd.certificate(odd.new_key(), ca=True), "friend.pem")
    assert not store.folder.exists()


KEY = odd.new_key()
GOOD = odd.certificate(KEY)
NAME = f"{odd.key_id(KEY)}.pem"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (NAME, b"", "damaged"),
        (NAME, GOOD[:-40], "damaged"),
        (NAME, GOOD + GOOD, "more than one"),
        (NAME, GOOD + b" " * 2**20, "more than 16 KiB"),
        (NAME, odd.certificate(KEY, ca=True), "authority"),
        ("friend.pem", GOOD, "not the id of its key"),
        (NAME.upper(), GOOD, "not the id of its key"),
        (NAME.removesuffix(".pem"), GOOD, "not the id of its key"),
        (f"{'0' * 64}.pem", GOOD, "not the id of its key"),
        ("notes\x1b.txt", b"call alice", "damaged"),
    ],
    # Not by the key, which is another one in every process.
    ids=["empty", "cut", "two", "long", "authority", "name", "upper", "no ending", "zero", "notes"],
)
def test_other_files_are_skipped_with_one_warning(store, people, caplog, name, content, words):
    alice = people["alice"]
    store.add(alice.certificate_pem)
    put(store, name, content)
    (warning,) = look(store, caplog)
    assert words in warning
    assert warning.isprintable()
    assert list(store.certificates()) == [alice.peer_id]
    assert store.roots() == alice.certificate_pem


def test_what_was_damaged_and_is_repaired_counts(store, caplog):
    put(store, NAME, GOOD[:100])
    assert len(look(store, caplog)) == 1
    put(store, NAME, GOOD)
    assert len(look(store, caplog)) == 1
    assert store.is_trusted(odd.key_id(KEY))


def test_what_is_no_file_is_skipped(store, caplog):
    store.folder.mkdir()
    (store.folder / NAME).mkdir()
    os.mkfifo(store.folder / f"{'0' * 64}.pem")  # nobody writes to it: reading would wait forever
    (store.folder / f"{'1' * 64}.pem").symlink_to("nowhere")
    (store.folder / ".hidden").write_text("of an editor")
    (store.folder / "123.partial").write_text("still being written")
    assert len(look(store, caplog)) == 3
    assert dict(store.certificates()) == {}


def test_without_the_folder_nobody_is_trusted(store, people, caplog):
    alice = people["alice"]
    store.add(alice.certificate_pem)
    store.folder.rename(store.folder.with_name("away"))
    (warning,) = look(store, caplog)
    assert "No such file" in warning
    assert not store.is_trusted(alice.peer_id)
    store.folder.with_name("away").rename(store.folder)
    look(store, caplog)
    assert store.is_trusted(alice.peer_id)


def test_nobody_can_change_what_is_trusted_but_by_the_folder(store, people):
    store.add(people["alice"].certificate_pem)
    with pytest.raises(TypeError):
        store.certificates()[people["bob"].peer_id] = people["bob"].certificate


def test_between_looks_the_files_are_left_alone(store, people, monkeypatch):
    """Every call of every peer asks."""
    looks = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or real(path))
    store.add(people["alice"].certificate_pem)
    begin = time.monotonic()
    for _ in range(1000):
        assert store.is_trusted(people["alice"].peer_id)
    assert len(looks) <= 2 + (time.monotonic() - begin) / 0.2


def test_many_threads_may_ask_while_the_folder_changes(store, people):
    alice, bob = people["alice"], people["bob"]
    store.add(alice.certificate_pem)
    ended = threading.Event()

    def ask() -> bool:
        trusted = True
        while not ended.is_set():
            trusted &= store.is_trusted(alice.peer_id) and alice.certificate_pem in store.roots()
        return trusted

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask) for _ in range(2)]
        try:
            for _ in range(10):
                store.add(bob.certificate_pem)
                store.remove(bob.peer_id)
        finally:
            ended.set()
        assert all(each.result() for each in asked)


@settings(deadline=None, max_examples=30)
@given(content=st.binary(max_size=200))
def test_no_file_makes_looking_fail(tmp_path_factory, content):
    store = TrustStore(tmp_path_factory.mktemp("garbage"))
    put(store, NAME, content)
    assert dict(store.certificates()) == {}
