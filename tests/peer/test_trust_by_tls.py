"""TLS believes those who are trusted, and nobody else."""

from __future__ import annotations

import ssl
from concurrent.futures import ThreadPoolExecutor

import grpc
import odd_certificates as odd
import pytest
from cryptography import x509

from coterie.errors import ConfigError
from coterie.peer.security.identity import Identity, create_identity


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
