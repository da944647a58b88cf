"""Where peers say they are: believed only if signed by whom it is about, and only if it is one."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.peer.discovery.addresses import Address, open_address, sign_address, split_address
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import create_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.wire.protocol_pb2 import AddressRecord, SignedAddress

INSTANCE = bytes(range(16))
ADDRESS = "clinic.example.org:7300"


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Return alice and bob, both trusted, a stranger, myself, and whom I trust."""
    folder = tmp_path_factory.mktemp("people")
    made = [create_identity(folder / name, name) for name in ("alice", "bob", "stranger", "me")]
    store = TrustStore(folder / "me")
    for each in made[:2]:
        store.add(each.certificate_pem)
    return *made, store


def signed_record(signer, **changes) -> SignedAddress:
    """Return a record with anything in it, with a signature that is right."""
    fields = {
        "peer_id": bytes.fromhex(signer.peer_id),
        "address": ADDRESS,
        "sequence": 5,
        "instance": INSTANCE,
        "name": signer.name,
    }
    record = AddressRecord(**{**fields, **changes}).SerializeToString()
    return SignedAddress(record=record, signature=signer.sign(record))


def rejected(signed: SignedAddress, store: TrustStore, reason: Reason) -> str:
    with pytest.raises(Refused) as caught:
        open_address(signed, store)
    assert caught.value.reason is reason
    assert str(caught.value).isprintable()
    return caught.value.detail


def test_what_was_signed_is_what_is_opened(people):
    alice, *_, store = people
    opened = open_address(sign_address(alice, ADDRESS, 2**63 - 1, INSTANCE), store)
    assert opened == Address(alice.peer_id, ADDRESS, 2**63 - 1, INSTANCE, "alice")


def test_an_address_passed_on_by_others_is_still_as_it_was_signed(people):
    alice, *_, store = people
    passed_on = sign_address(alice, ADDRESS, 7, INSTANCE).SerializeToString()
    assert open_address(SignedAddress.FromString(passed_on), store).address == ADDRESS


def test_nonsense_is_not_signed(people):
    with pytest.raises(ConfigError, match="is not an address"):
        sign_address(people[0], "clinic", 1, INSTANCE)


def test_the_address_of_a_stranger_is_refused(people):
    *_, stranger, _, store = people
    rejected(sign_address(stranger, ADDRESS, 1, INSTANCE), store, Reason.UNTRUSTED)


def test_the_address_of_whom_i_trust_no_longer_is_refused(people, tmp_path):
    alice, *_ = people
    store = TrustStore(tmp_path)
    store.add(alice.certificate_pem)
    signed = sign_address(alice, ADDRESS, 1, INSTANCE)
    assert open_address(signed, store).peer_id == alice.peer_id
    store.remove(alice.peer_id)
    rejected(signed, store, Reason.UNTRUSTED)


def test_my_own_address_is_opened_only_if_i_say_who_i_am(people):
    *_, me, store = people
    signed = sign_address(me, ADDRESS, 1, INSTANCE)
    rejected(signed, store, Reason.UNTRUSTED)
    assert open_address(signed, store, me).peer_id == me.peer_id
    forged = SignedAddress(record=signed.record, signature=people[0].sign(signed.record))
    with pytest.raises(Refused) as caught:
        open_address(forged, store, me)
    assert caught.value.reason is Reason.BAD_SIGNATURE


def test_nobody_can_sign_for_another(people):
    alice, bob, stranger, _, store = people
    about_alice = bytes.fromhex(alice.peer_id)
    for signer in (bob, stranger):
        rejected(signed_record(signer, peer_id=about_alice), store, Reason.BAD_SIGNATURE)


@settings(deadline=None)
@given(st.data())
def test_an_altered_record_is_refused(people, data):
    alice, *_, store = people
    good = sign_address(alice, ADDRESS, 5, INSTANCE)
    record = bytearray(good.record)
    place = data.draw(st.integers(0, len(record) - 1))
    record[place] ^= 1 << data.draw(st.integers(0, 7))
    altered = SignedAddress(record=bytes(record), signature=good.signature)
    with pytest.raises(Refused) as caught:
        open_address(altered, store)
    assert caught.value.reason in {Reason.BAD_SIGNATURE, Reason.MALFORMED, Reason.UNTRUSTED}


@pytest.mark.parametrize("field", ["sequence", "address", "instance", "name"])
def test_each_field_is_signed(people, field):
    alice, *_, store = people
    values = {"sequence": 6, "address": "evil:1", "instance": bytes(16), "name": "bob"}
    other = signed_record(alice, **{field: values[field]})
    forged = SignedAddress(record=other.record, signature=signed_record(alice).signature)
    rejected(forged, store, Reason.BAD_SIGNATURE)


@pytest.mark.parametrize("signature", [b"", b"\x30", bytes(64), bytes(80)])
def test_what_is_no_signature_is_refused(people, signature):
    alice, *_, store = people
    forged = SignedAddress(record=signed_record(alice).record, signature=signature)
    rejected(forged, store, Reason.BAD_SIGNATURE)


@pytest.mark.parametrize(
    "changes",
    [
        {"peer_id": b""},
        {"peer_id": bytes(31)},
        {"peer_id": bytes(33)},
        {"instance": b""},
        {"instance": bytes(17)},
        {"address": ""},
        {"address": "clinic"},
        {"address": "clinic:0"},
        {"address": "a\x1b[2J:7300"},
        {"address": "x" * 256 + ":7300"},
        {"name": "x" * 2000},
    ],
)
def test_a_record_of_something_else_is_refused_though_signed(people, changes):
    alice, *_, store = people
    rejected(signed_record(alice, **changes), store, Reason.MALFORMED)


@pytest.mark.parametrize("record", [b"", b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"x" * 2**20])
def test_bytes_that_are_no_record_are_refused(people, record):
    alice, *_, store = people
    signed = SignedAddress(record=record, signature=alice.sign(record))
    rejected(signed, store, Reason.MALFORMED)


def test_a_signature_that_is_too_long_is_refused(people):
    alice, *_, store = people
    long = SignedAddress(record=signed_record(alice).record, signature=bytes(2**20))
    rejected(long, store, Reason.MALFORMED)


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=80))
def test_garbage_is_refused(people, record, signature):
    with pytest.raises(Refused):
        open_address(SignedAddress(record=record, signature=signature), people[-1])


def test_a_name_is_made_safe_to_print(people):
    alice, *_, store = people
    opened = open_address(signed_record(alice, name="\x1b[31mroot\n" + "x" * 100), store)
    assert opened.name == ("?[31mroot?" + "x" * 100)[:64]


# The syntax

GOOD = {
    "localhost:7300": ("localhost", 7300),
    "clinic.example.org:1": ("clinic.example.org", 1),
    "xn--bcher-kva.example:65535": ("xn--bcher-kva.example", 65535),
    "peer_1:80": ("peer_1", 80),
    "3com.example:80": ("3com.example", 80),
    "192.0.2.7:7300": ("192.0.2.7", 7300),
    "[2001:db8::7]:7300": ("2001:db8::7", 7300),
    "[::ffff:192.0.2.7]:7300": ("::ffff:192.0.2.7", 7300),
}


@pytest.mark.parametrize("address", GOOD)
def test_addresses_are_split(address):
    assert split_address(address) == GOOD[address]


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        ":7300",
        "localhost",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:07300",
        "localhost:+7300",
        "localhost:7_300",
        "localhost:٧٣٠٠",
        "localhost: 7300",
        "localhost:7300 ",
        "localhost:7300\n",
        " localhost:7300",
        "local host:7300",
        "local\nhost:7300",
        "local\0host:7300",
        "unix:/tmp/socket:7300",
        "dns:///localhost:7300",
        "http://localhost:7300",
        "user@localhost:7300",
        "localhost/path:7300",
        "localhost%41:7300",
        "-localhost:7300",
        "localhost-:7300",
        "local..service:7300",
        ".localhost:7300",
        "localhost.:7300",
        "büro.example:7300",
        f"{'x' * 64}.example:7300",
        f"{'x.' * 126}xx:7300",
        "2001:db8::7:7300",
        "[2001:db8::7:7300",
        "2001:db8::7]:7300",
        "[[::1]]:7300",
        "[fe80::1%eth0]:7300",
        "[192.0.2.7]:7300",
        "[localhost]:7300",
        "[]:7300",
        "1.2.3:7300",
        "1.2.3.4.5:7300",
        "256.0.0.1:7300",
        "01.2.3.4:7300",
        "2130706433:7300",
        "*:7300",
    ],
)
def test_anything_else_is_not_an_address(address):
    with pytest.raises(ConfigError, match=r"is not an address: .* Expected host:port") as caught:
        split_address(address)
    assert str(caught.value).isprintable()


def test_any_free_port_is_something_to_listen_at_only():
    assert split_address("localhost:0", smallest_port=0) == ("localhost", 0)
    with pytest.raises(ConfigError, match="from 1 to 65535"):
        split_address("localhost:0")


@settings(deadline=None)
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)), st.integers(1, 65535))
def test_every_number_of_a_host_is_an_address(host, port):
    shown = f"[{host}]" if host.version == 6 else str(host)
    split, found = split_address(f"{shown}:{port}")
    assert (ipaddress.ip_address(split), found) == (host, port)


@settings(deadline=None)
@given(st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z][a-z0-9]{0,8}){0,4}", fullmatch=True))
def test_every_name_of_a_host_is_an_address(host):
    assert split_address(f"{host}:7300") == (host, 7300)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=300), st.text("a1.:[]-_%/@ \n0", max_size=20)))
def test_whatever_is_accepted_holds_nothing_but_host_and_port(text):
    try:
        host, port = split_address(text)
    except ConfigError:
        return
    assert len(text) <= 255
    assert text in {f"{host}:{port}", f"[{host}]:{port}"}
    assert re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", host)
    assert 1 <= port <= 65535
