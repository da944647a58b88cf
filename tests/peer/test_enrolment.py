"""Becoming a peer and choosing whom to trust, on the command line."""

from __future__ import annotations

import re
import stat
import subprocess
import sys

import odd_certificates as odd
import pytest
import yaml
from commands import coterie, plain, refused

from coterie.peer.peer_config import PeerConfig, read_peer_config
from coterie.peer.security.identity import create_identity, load_identity
from coterie.peer.security.trust import TrustStore


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a new working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def peers(here):
    """Return the folder of the peers alice and bob."""
    for name in ("alice", "bob"):
        create_identity(here / name, name)
    return here


def trusted_by(folder) -> set[str]:
    return {each.name for each in TrustStore(folder).certificates().values()}


def test_a_new_peer_is_a_folder_with_all_it_needs(here):
    answer = coterie("peer", "init", "alice")
    assert answer.code == 0
    identity = load_identity(here / "alice")
    assert identity.name == "alice"
    assert identity.peer_id in answer.out.splitlines()
    assert "Send alice/certificate.pem" in answer.out
    assert "phone" in answer.out
    assert list((here / "alice" / "trusted").iterdir()) == []
    assert stat.S_IMODE((here / "alice" / "key.pem").stat().st_mode) == 0o600


def test_the_settings_of_a_new_peer_can_be_used_as_they_are(here):
    coterie("peer", "init", "alice")
    config = read_peer_config(here / "alice")
    assert config.strategy["name"] == "kin"
    assert config.known == ()


def test_every_example_in_the_settings_of_a_new_peer_can_be_used(here):
    coterie("peer", "init", "alice")
    text = (here / "alice" / "peer.yaml").read_text()
    given = yaml.safe_load(text)
    examples = yaml.safe_load("\n".join(re.findall(r"^# ( *[a-z_]+:.*)$", text, re.MULTILINE)))
    assert {"advertise", "known", "rounds", "training", "network"} == set(examples)
    config = PeerConfig.model_validate({**given, **examples})
    assert config.advertise == "clinic.example.org:7300"
    assert len(config.known) == 2
    without = PeerConfig.model_validate(given)
    assert config.training == without.training  # shown as it is without the lines
    assert config.network == without.network
    for function, group in re.findall(r"^  # function: (my_module:my_(\w+))$", text, re.MULTILINE):
        PeerConfig.model_validate({**given, group: {"function": function}})


def test_a_peer_can_be_made_anywhere(here):
    answer = coterie("peer", "init", "Ward 3 / north", "--folder", here / "deep" / "folder")
    assert answer.code == 0
    assert load_identity(here / "deep" / "folder").name == "Ward 3 / north"
    assert f"trust FILE --folder {here / 'deep' / 'folder'}" in plain(answer.out)


def test_settings_that_are_there_are_kept(here):
    (here / "alice").mkdir()
    (here / "alice" / "peer.yaml").write_text("mine")
    assert coterie("peer", "init", "alice").code == 0
    assert (here / "alice" / "peer.yaml").read_text() == "mine"


def test_no_peer_is_overwritten(peers):
    before = (peers / "alice" / "key.pem").read_bytes()
    refused(coterie("peer", "init", "alice"), 2, "already a key.pem in alice", "--folder")
    assert (peers / "alice" / "key.pem").read_bytes() == before


@pytest.mark.parametrize("name", ["a/b", "..", ".", "/"])
def test_names_that_are_no_folders_need_a_folder(here, name):
    refused(coterie("peer", "init", name), 2, "--folder")
    assert list(here.iterdir()) == []


def test_names_that_cannot_be_shown_are_refused(here):
    refused(coterie("peer", "init", "a\tb"), 2, "'a?b' cannot be the name of a peer")
    assert list(here.iterdir()) == []


def test_a_peer_that_cannot_be_made_there_says_where_else(here):
    (here / "file").write_text("")
    refused(coterie("peer", "init", "alice", "--folder", "file/alice"), 4, "file/alice", "--folder")


def test_trusting_says_who_is_trusted(peers):
    bob = load_identity(peers / "bob")
    answer = coterie("peer", "trust", "bob/certificate.pem", "--folder", "alice")
    assert answer.code == 0
    assert "bob is trusted now" in answer.out
    assert bob.peer_id in answer.out.splitlines()
    assert TrustStore(peers / "alice").is_trusted(bob.peer_id)
    again = coterie("peer", "trust", "bob/certificate.pem", "--folder", "alice")
    assert again.code == 0
    assert "bob was trusted already" in again.out


def test_the_folder_is_where_one_is(peers, monkeypatch):
    monkeypatch.chdir(peers / "alice")
    assert coterie("peer", "trust", "../bob/certificate.pem").code == 0
    assert trusted_by(peers / "alice") == {"bob"}
    assert coterie("peer", "untrust", "bob").code == 0
    assert trusted_by(peers / "alice") == set()


def test_a_certificate_may_come_through_a_pipe(peers):
    certificate = (peers / "bob" / "certificate.pem").read_bytes()
    command = [sys.executable, "-m", "coterie", "peer", "trust", "/dev/stdin"]
    subprocess.run([*command, "--folder", "alice"], input=certificate, check=True, timeout=120)
    assert trusted_by(peers / "alice") == {"bob"}


def test_nobody_is_trusted_by_a_wrong_file(peers):
    (peers / "odd.pem").write_bytes(odd.certificate(odd.new_key(), ca=True))
    (peers / "old.pem").write_bytes(odd.certificate(odd.new_key(), days=(-10, -1)))
    for file, code, words in (
        ("bob/key.pem", 2, "private key"),
        ("bob/nothing.pem", 4, "No such file"),
        ("bob", 4, "Is a directory"),
        ("alice/certificate.pem", 2, "this peer's own"),
        ("odd.pem", 2, "authority"),
        ("old.pem", 2, "so it is not valid now"),
    ):
        refused(coterie("peer", "trust", file, "--folder", "alice"), code, file, words)
    assert trusted_by(peers / "alice") == set()


@pytest.mark.parametrize("command", [("trust", "bob/certificate.pem"), ("untrust", "bob"), ("id",)])
def test_only_a_peer_trusts(peers, command):
    answer = coterie("peer", *command, "--folder", "nowhere")
    refused(answer, 2, "nowhere is not the folder of a peer", "coterie peer init NAME")
    assert not (peers / "nowhere").exists()


def test_the_id_is_shown_alone(peers):
    answer = coterie("peer", "id", "--folder", "bob")
    assert answer.out == load_identity(peers / "bob").peer_id + "\n"


def named(peers, *names: str) -> list[str]:
    """Let alice trust peers of these names; return their ids."""
    store = TrustStore(peers / "alice")
    made = [create_identity(peers / f"of {n}", name) for n, name in enumerate(names)]
    return [store.add(each.certificate_pem).peer_id for each in made]


def test_trust_is_taken_back_by_name_id_or_file(peers):
    ids = named(peers, "carol", "dave", "eve", "frank")
    for who in ("carol", ids[1][:8], ids[2].upper(), "of 3/certificate.pem"):
        answer = coterie("peer", "untrust", who, "--folder", "alice")
        assert answer.code == 0, answer
        assert "is not trusted any more" in answer.out
    assert trusted_by(peers / "alice") == set()


def test_a_folder_of_the_same_name_is_in_nobodys_way(peers):
    coterie("peer", "trust", "bob/certificate.pem", "--folder", "alice")
    assert coterie("peer", "untrust", "bob", "--folder", "alice").code == 0


def test_a_name_that_two_have_is_not_enough(peers):
    ids = named(peers, "laptop", "laptop", "eve")
    refused(coterie("peer", "untrust", "laptop", "--folder", "alice"), 2, "its id", *ids[:2])
    assert coterie("peer", "untrust", ids[1], "--folder", "alice").code == 0
    assert set(TrustStore(peers / "alice").certificates()) == {ids[0], ids[2]}


def test_nobody_can_be_called_as_another_to_be_confused_with_him(peers):
    (victim,) = named(peers, "victim")
    impostor = create_identity(peers / "impostor", victim[:12])
    TrustStore(peers / "alice").add(impostor.certificate_pem)
    answer = coterie("peer", "untrust", victim[:12], "--folder", "alice")
    refused(answer, 2, "matches several trusted peers", victim, impostor.peer_id)
    assert len(trusted_by(peers / "alice")) == 2


def test_an_unknown_name_is_answered_with_the_nearest(peers):
    (carol,) = named(peers, "carol")
    refused(coterie("peer", "untrust", "karol", "--folder", "alice"), 2, "Did you mean 'carol'?")
    refused(coterie("peer", "untrust", carol[:7], "--folder", "alice"), 2, "at least 8 digits")
    refused(coterie("peer", "untrust", "bob/certificate.pem", "--folder", "alice"), 2, "Known")
    assert trusted_by(peers / "alice") == {"carol"}


def test_where_nobody_is_trusted_nobody_is_proposed(peers):
    answer = coterie("peer", "untrust", "carol", "--folder", "alice")
    refused(answer, 2, "trusts no other peer yet")


def test_commands_start_without_what_they_do_not_need():
    """Whoever only asks for help does not wait for cryptography."""
    ask = (
        "import sys, coterie.cli.main; print({'cryptography', 'grpc', 'torch'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True)
    assert told.stdout == "set()\n"
