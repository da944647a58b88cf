"""Keys and certificates: made privately, and refused unless all of it is as it must be."""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import odd_certificates as odd
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError, StorageError
from coterie.peer.security.certificates import LARGEST_FILE_BYTES, peer_id_of, read_certificate
from coterie.peer.security.identity import (
    create_identity,
    load_certificate,
    load_identity,
)
from coterie.storage.files import PARTIAL, write_atomically, write_text

GOOD = odd.certificate(odd.new_key())
GOOD_DER = ssl.PEM_cert_to_DER_cert(GOOD.decode())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "alice"
    return folder, create_identity(folder, "alice")


@pytest.fixture
def folder(tmp_path):
    create_identity(tmp_path, "alice")
    return tmp_path


def put_key(folder, content: bytes) -> None:
    write_text(folder / "key.pem", content.decode(), private=True)


def refused(pem: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_certificate(pem, "that.pem")
    message = str(caught.value)
    assert message.startswith("that.pem cannot be used: ")
    assert "ask its owner" in message


# What is made


def test_what_was_made_is_what_is_loaded(made):
    folder, identity = made
    loaded = load_identity(folder)
    assert loaded == identity
    assert (loaded.key_pem, loaded.certificate_pem) == (identity.key_pem, identity.certificate_pem)
    assert loaded.name == "alice"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "certificate.pem",
        "key.pem",
    ]


def test_the_id_is_the_hash_of_the_public_key(made):
    folder, identity = made
    pem = (folder / "certificate.pem").read_bytes()
    public = x509.load_pem_x509_certificate(pem).public_key()
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert identity.peer_id == hashlib.sha256(encoded).hexdigest()
    assert peer_id_of(pem) == peer_id_of(ssl.PEM_cert_to_DER_cert(pem.decode())) == identity.peer_id


def test_a_certificate_says_what_it_is_for_and_nothing_more(made):
    certificate = x509.load_pem_x509_certificate(made[1].certificate_pem)
    extensions = {type(each.value): each for each in certificate.extensions}
    assert len(extensions) == 4
    constraints = extensions[x509.BasicConstraints]
    assert constraints.critical
    assert not constraints.value.ca
    usage = extensions[x509.KeyUsage].value
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert set(extensions[x509.ExtendedKeyUsage].value) == set(odd.BOTH_ENDS)
    names = extensions[x509.SubjectAlternativeName].value
    assert names.get_values_for_type(x509.DNSName) == ["coterie"]
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "alice"


def test_a_clock_that_is_off_by_hours_does_not_matter(made):
    certificate = made[1].certificate
    now = datetime.now(UTC)
    assert certificate.not_before < now - timedelta(hours=23)
    assert certificate.not_after > now + timedelta(days=3649)


def test_the_shortest_validity_counts_from_now_on(tmp_path):
    create_identity(tmp_path, "brief", valid_days=1)
    assert load_identity(tmp_path).certificate.is_valid


def test_the_key_is_private_also_while_it_is_written(tmp_path):
    modes = []

    def write(file):
        modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        return "key.pem"

    (tmp_path / f"{os.getpid()}{PARTIAL}").touch(0o666)  # somebody else may have it open
    before = os.umask(0)
    try:
        write_atomically(tmp_path, write, private=True)
        create_identity(tmp_path / "peer", "alice")
    finally:
        os.umask(before)
    modes += [stat.S_IMODE((tmp_path / "peer" / "key.pem").stat().st_mode)]
    assert modes == [0o600, 0o600]


def test_nothing_that_is_printed_shows_the_key(made):
    assert "PRIVATE" not in repr(made[1])
    assert "key=" not in repr(made[1])


@pytest.mark.parametrize("there", ["key.pem", "certificate.pem"])
def test_nothing_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(ConfigError, match=f"There is already a {there} in"):
        create_identity(tmp_path, "alice")
    assert (tmp_path / there).read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {there, ".lock"}


def test_a_link_that_leads_nowhere_is_not_overwritten_either(tmp_path):
    (tmp_path / "key.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"There is already a key.pem"):
        create_identity(tmp_path, "alice")
    assert not (tmp_path / "elsewhere").exists()


def test_if_the_certificate_cannot_be_written_no_key_stays_behind(tmp_path, monkeypatch):
    def fail(path, text, *, private=False):
        if path.name == "certificate.pem":
            raise StorageError("The disk is full.")
        write_text(path, text, private=private)

    monkeypatch.setattr("coterie.peer.security.identity.write_text", fail)
    with pytest.raises(StorageError, match="full"):
        create_identity(tmp_path, "alice")
    monkeypatch.undo()
    create_identity(tmp_path, "alice")


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\x1b[31m", "x" * 65, "é" * 33, "a\u202eb"])
def test_names_that_cannot_be_shown_are_refused_before_anything_is_made(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be the name of a peer") as caught:
        create_identity(tmp_path / "new", name)
    assert str(caught.value).isprintable()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["Ålesund clinic", "é" * 32, "北"])
def test_names_of_any_language_are_kept(tmp_path, name):
    assert create_identity(tmp_path, name).name == name
    assert load_identity(tmp_path).name == name


def test_a_signature_is_of_these_data_and_this_key(made, tmp_path):
    identity = made[1]
    other = create_identity(tmp_path, "other")
    signature = identity.sign(b"data")
    assert identity.certificate.verify(b"data", signature)
    assert not identity.certificate.verify(b"Data", signature)
    assert not identity.certificate.verify(b"data", b"")
    assert not identity.certificate.verify(b"data", signature + b"\0")
    assert not other.certificate.verify(b"data", signature)


# What is loaded


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_key_that_others_can_read_or_change_is_refused(folder, mode):
    (folder / "key.pem").chmod(mode)
    with pytest.raises(ConfigError, match=f"has mode {mode:04o}") as caught:
        load_identity(folder)
    assert f"chmod 600 {folder / 'key.pem'}" in str(caught.value)
    (folder / "key.pem").chmod(0o400)
    load_identity(folder)


@pytest.mark.parametrize("missing", ["key.pem", "certificate.pem"])
def test_without_key_or_certificate_a_folder_is_not_that_of_a_peer(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(ConfigError, match=f"there is no {missing}.*coterie peer init"):
        load_identity(folder)


@pytest.mark.parametrize("file", ["key.pem", "certificate.pem"])
def test_a_file_that_cannot_be_read_is_a_reason_not_to_start(folder, file):
    (folder / file).unlink()
    (folder / file).mkdir(0o700)
    with pytest.raises(StorageError, match=f"Cannot read .*{file}: Is a directory"):
        load_identity(folder)


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_key_is_refused(folder, content):
    put_key(folder, content)
    with pytest.raises(ConfigError, match=r"not a key in PEM.*backup"):
        load_identity(folder)


def test_a_key_with_a_password_is_refused(folder):
    password = BestAvailableEncryption(b"password")
    put_key(folder, odd.new_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password))
    with pytest.raises(ConfigError, match="protected by a password"):
        load_identity(folder)


@pytest.mark.parametrize("kind", odd.OTHER_KEYS)
def test_a_key_of_another_kind_is_refused(folder, kind):
    put_key(folder, odd.key_pem(odd.OTHER_KEYS[kind]()))
    with pytest.raises(ConfigError, match="not an ECDSA key on the curve P-256"):
        load_identity(folder)


def test_a_key_that_does_not_belong_to_the_certificate_is_refused(folder):
    put_key(folder, odd.key_pem(odd.new_key()))
    with pytest.raises(ConfigError, match="do not belong together"):
        load_identity(folder)


@pytest.mark.parametrize("first_day", [-20, 5])
def test_a_certificate_that_is_not_valid_now_is_refused(tmp_path, first_day):
    begin = datetime.now(UTC) + timedelta(days=first_day)
    create_identity(tmp_path, "alice", valid_days=10, not_before=begin)
    with pytest.raises(ConfigError, match="but now it is"):
        load_identity(tmp_path)
    assert not load_certificate(tmp_path).is_valid


def test_a_damaged_certificate_of_my_own_says_what_i_can_do(folder):
    (folder / "certificate.pem").write_bytes(GOOD[:300])
    with pytest.raises(ConfigError, match=r"or it is damaged. Restore key.pem and certificate.pem"):
        load_identity(folder)


def test_while_a_process_holds_the_folder_no_identity_is_made_in_it(tmp_path):
    hold = f"""
import sys
from pathlib import Path
from coterie.storage.files import lock_folder
with lock_folder(Path({str(tmp_path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = [sys.executable, "-c", hold]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match="Another process"):
            create_identity(tmp_path, "alice")
        process.stdin.close()
    create_identity(tmp_path, "alice")


# What is read from outside


def test_a_good_certificate_is_read():
    certificate = read_certificate(GOOD)
    assert certificate.peer_id == peer_id_of(GOOD)
    assert certificate.name == "odd"
    assert certificate.is_valid


def test_text_around_a_certificate_is_left_behind():
    assert read_certificate(b"Subject: CN = odd\n" + GOOD + b"\nbye\n").pem == GOOD


@pytest.mark.parametrize("kind", odd.OTHER_KEYS)
def test_certificates_of_other_keys_are_refused(kind):
    refused(odd.certificate(odd.OTHER_KEYS[kind]()), "not an ECDSA key on the curve P-256")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ca": True}, "of an authority"),
        ({"ca": True, "signs_certificates": True}, "of an authority"),
        ({"signs_certificates": True}, "of an authority"),
        ({"ca": None}, "does not state what its key may be used for"),
        ({"uses": (ExtendedKeyUsageOID.CLIENT_AUTH,)}, "both ends of a connection"),
        ({"uses": (ExtendedKeyUsageOID.SERVER_AUTH,)}, "both ends of a connection"),
        ({"names": ("example.org",)}, "not for the name 'coterie'"),
        ({"names": ("coterie", "example.org")}, "not for the name 'coterie'"),
        ({"names": ()}, "not for the name 'coterie'"),
        ({"digest": SHA384()}, "not signed with SHA-256"),
        ({"issuer_key": odd.new_key()}, "not signed by its own key"),
        ({"issuer": odd.called("another")}, "not signed by its own key"),
    ],
)
def test_certificates_for_anything_else_are_refused(given, words):
    refused(odd.certificate(odd.new_key(), **given), words)


@pytest.mark.parametrize(
    "oids", [[], [NameOID.SERIAL_NUMBER], [NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER]]
)
def test_a_certificate_of_something_else_than_a_name_is_refused(oids):
    subject = x509.Name([x509.NameAttribute(oid, "alice") for oid in oids])
    refused(odd.certificate(odd.new_key(), subject=subject), "its subject is not exactly one name")


def test_two_certificates_in_a_file_are_refused():
    refused(GOOD + odd.certificate(odd.new_key()), "more than one certificate")
    authority = odd.certificate(odd.new_key(), ca=True, signs_certificates=True)
    hidden = authority.replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE")
    refused(GOOD + hidden, "more than one certificate")


def test_a_file_with_a_private_key_is_refused():
    refused(GOOD + odd.key_pem(odd.new_key()), "private key, which must never leave")


def test_a_certificate_of_a_megabyte_is_refused():
    refused(GOOD + b" " * 2**20, "more than 16 KiB")
    refused(odd.certificate(odd.new_key(), names=("x" * 60,) * 20_000), "more than 16 KiB")
    assert read_certificate(GOOD.ljust(LARGEST_FILE_BYTES)).pem == GOOD


def test_a_name_is_made_safe_to_print():
    evil = odd.called("\x1b]0;root\x07\u202eevil\r\n")
    pem = odd.certificate(odd.new_key(), subject=evil)
    assert read_certificate(pem).name == "?]0;root??evil??"


@settings(deadline=None)
@given(st.integers(0, len(GOOD) - 30))
def test_a_truncated_certificate_is_refused(length):
    refused(GOOD[:length], "damaged")


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_garbage_is_refused(garbage):
    with pytest.raises(ConfigError, match="cannot be used"):
        read_certificate(garbage)
    with pytest.raises(ConfigError, match="cannot be used"):
        read_certificate(ssl.DER_cert_to_PEM_cert(garbage).encode())
    with pytest.raises(ConfigError, match="not a certificate"):
        peer_id_of(garbage)


@settings(deadline=None)
@given(st.data())
def test_a_certificate_with_any_byte_changed_is_refused(data):
    changed = bytearray(GOOD_DER)
    place = data.draw(st.integers(0, len(changed) - 1))
    changed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ConfigError, match="cannot be used"):
        read_certificate(ssl.DER_cert_to_PEM_cert(bytes(changed)).encode())
