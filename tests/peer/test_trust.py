"""Who is trusted is what is in the folder, now; and TLS believes just those, and nobody else."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import odd_certificates as odd
import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.peer.identity import Identity, create_identity
from coterie.peer.trust import TrustStore


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> dict[str, Identity]:
    folder = tmp_path_factory.mktemp("people")
    return {name: create_identity(folder / name, name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def store(tmp_path) -> TrustStore:
    create_identity(tmp_path, "me")
    return TrustStore(tmp_path)


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


# The folder


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
    with pytest.raises(ConfigError, match="not among those trusted"):
        store.remove(people["bob"].peer_id)


@pytest.mark.parametrize("peer_id", ["../key", "", "*", "\x1b[2J"])
def test_only_ids_can_be_removed(store, people, peer_id, tmp_path):
    with pytest.raises(ConfigError, match="not among those trusted") as caught:
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
    with pytest.raises(ConfigError, match="which is not now"):
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


# TLS


def context(purpose: int, key: bytes, chain: bytes, roots: bytes, tmp_path) -> ssl.SSLContext:
    made = ssl.SSLContext(purpose)
    file = tmp_path / "chain.pem"
    file.write_bytes(key + chain)
    made.load_cert_chain(file)
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=roots.decode())
    return made


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[bytes, bytes]:
    """Connect both in memory; return whose certificate each of them has seen."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname="coterie"),
    ]
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return tuple(end.getpeercert(binary_form=True) for end in ends)


def connect(
    tmp_path, server: tuple[bytes, bytes], seen_by_client: bytes, client: tuple, seen: bytes
) -> tuple[bytes, bytes]:
    return shake_hands(
        context(ssl.PROTOCOL_TLS_SERVER, *server, seen, tmp_path),
        context(ssl.PROTOCOL_TLS_CLIENT, *client, seen_by_client, tmp_path),
    )


def pair(identity: Identity) -> tuple[bytes, bytes]:
    return identity.key_pem, identity.certificate_pem


def der(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.certificate_pem.decode())


def stranger_vouched_for(
    voucher_key, voucher_pem: bytes, name: str = "stranger"
) -> tuple[bytes, bytes]:
    """Return key and chain of somebody whose certificate was signed by another peer's key."""
    key = odd.new_key()
    issuer = x509.load_pem_x509_certificate(voucher_pem).subject
    pem = odd.certificate(key, subject=odd.called(name), issuer=issuer, issuer_key=voucher_key)
    return odd.key_pem(key), pem + voucher_pem


def test_two_who_trust_each_other_are_connected(store, people, tmp_path):
    alice, bob, carol = people.values()
    store.add(alice.certificate_pem)
    store.add(bob.certificate_pem)
    seen = connect(tmp_path, pair(alice), store.roots(), pair(bob), store.roots())
    assert seen == (der(bob), der(alice))
    with pytest.raises(ssl.SSLError, match=r"(?i)verify|unknown"):
        connect(tmp_path, pair(alice), store.roots(), pair(carol), store.roots())
    with pytest.raises(ssl.SSLError, match=r"(?i)verify|unknown"):
        connect(tmp_path, pair(carol), store.roots(), pair(bob), store.roots())


@pytest.mark.parametrize("name", ["stranger", "alice", "bob"])
def test_nobody_trusted_can_vouch_for_a_stranger(store, people, tmp_path, name):
    alice, bob = people["alice"], people["bob"]
    store.add(alice.certificate_pem)
    store.add(bob.certificate_pem)
    stranger = stranger_vouched_for(alice.key, alice.certificate_pem, name)
    for server, client in ((stranger, pair(bob)), (pair(bob), stranger)):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)CA cert|verify failed"):
            connect(tmp_path, server, store.roots(), client, store.roots())


def test_an_authority_could_vouch_which_is_why_none_can_be_added(store, people, tmp_path):
    key, bob = odd.new_key(), people["bob"]
    authority = odd.certificate(key, ca=True, signs_certificates=True)
    with pytest.raises(ConfigError, match="authority"):
        store.add(authority)
    roots = authority + bob.certificate_pem
    connect(tmp_path, stranger_vouched_for(key, authority), roots, pair(bob), roots)


class Echo:
    """A gRPC server with mutual TLS: the library that real peers use, with its own TLS."""

    def __init__(self, server: tuple[bytes, bytes], roots: bytes) -> None:
        call = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        handler = grpc.method_handlers_generic_handler("test", {"Echo": call})
        self._server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
        credentials = grpc.ssl_server_credentials([server], roots, require_client_auth=True)
        self._port = self._server.add_secure_port("localhost:0", credentials)
        self._server.start()

    def __enter__(self) -> Echo:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def answers(self, client: tuple[bytes, bytes], roots: bytes) -> bool:
        credentials = grpc.ssl_channel_credentials(roots, *client)
        options = [("grpc.ssl_target_name_override", "coterie"), ("grpc.enable_http_proxy", 0)]
        with grpc.secure_channel(f"localhost:{self._port}", credentials, options) as channel:
            try:
                return channel.unary_unary("/test/Echo")(b"hi", timeout=60) == b"hi"
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False


def test_grpc_believes_the_same_also_of_namesakes(store, tmp_path):
    twins = [create_identity(tmp_path / str(number), "laptop") for number in range(3)]
    for twin in twins:
        store.add(twin.certificate_pem)
    roots = store.roots()
    for server, client in ((0, 1), (1, 2), (2, 0)):
        with Echo(pair(twins[server]), roots) as echo:
            assert echo.answers(pair(twins[client]), roots)
    for name in ("stranger", "laptop"):
        stranger = stranger_vouched_for(twins[0].key, twins[0].certificate_pem, name)
        with Echo(pair(twins[0]), roots) as echo:
            assert not echo.answers(stranger, roots)
        with Echo(stranger, roots) as echo:
            assert not echo.answers(pair(twins[1]), roots)
