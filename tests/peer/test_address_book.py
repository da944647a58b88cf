"""The address book: numbers, records, goodbyes, and other processes with my key."""

from __future__ import annotations

import json

import pytest

from coterie.errors import ConfigError, StorageError
from coterie.peer.discovery.address_book import MOST_RECORD_BYTES, MOST_RECORDS, AddressBook
from coterie.peer.discovery.addresses import sign_address
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import Identity, create_identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport_settings import BreakerSettings
from coterie.peer.wire import protocol_pb2 as wire

START = b"s" * 16
LATER_START = b"t" * 16


@pytest.fixture(scope="module")
def identities(tmp_path_factory) -> list[Identity]:
    folder = tmp_path_factory.mktemp("keys")
    return [create_identity(folder / name, name) for name in ("me", "ann", "bob", "cyd")]


@pytest.fixture
def trust(tmp_path, identities) -> TrustStore:
    store = TrustStore(tmp_path)
    for identity in identities[1:3]:
        store.add(identity.certificate_pem)
    return store


@pytest.fixture
def address_book(identities, trust) -> AddressBook:
    return book(identities, trust)


def book(identities, trust, **given) -> AddressBook:
    address_book = AddressBook(identities[0], trust, **given)
    address_book.announce("127.0.0.1:7300")
    return address_book


def record(who: Identity, sequence=1, instance=START, address="127.0.0.1:7301"):
    return sign_address(who, address, sequence, instance)


def reason_of(call, *arguments) -> Reason:
    with pytest.raises(Refused) as refused:
        call(*arguments)
    return refused.value.reason


def test_numbers_follow_the_order_of_meeting_and_stay(address_book, trust, identities):
    me, ann, bob, _ = identities
    address_book.add_record(record(bob))
    address_book.add_record(record(ann))
    assert [address_book.number_of(each.peer_id) for each in (me, bob, ann)] == [0, 1, 2]
    assert address_book.reachable() == [1, 2]
    trust.remove(bob.peer_id)
    assert address_book.reachable() == [2]
    trust.add(bob.certificate_pem)
    address_book.add_record(record(bob, sequence=2))
    assert address_book.id_of(1) == bob.peer_id
    assert address_book.num_peers == 3


def test_numbers_of_a_roster_are_fixed_in_advance(identities, trust):
    _, ann, bob, cyd = identities
    address_book = book(identities, trust, roster=[cyd.peer_id, bob.peer_id])
    address_book.add_record(record(ann))
    assert [address_book.id_of(number) for number in (1, 2, 3)] == [
        cyd.peer_id,
        bob.peer_id,
        ann.peer_id,
    ]
    assert address_book.reachable() == [3], "without an address nobody can be asked"


def test_the_highest_sequence_counts(address_book, identities):
    ann = identities[1]
    assert address_book.add_record(record(ann, 5, address="127.0.0.1:5"))
    assert address_book.add_record(record(ann, 6, address="127.0.0.1:6"))
    assert (
        reason_of(address_book.add_record, record(ann, 5, address="127.0.0.1:5")) is Reason.OUTDATED
    )
    assert address_book.address_of(ann.peer_id) == "127.0.0.1:6"


def test_the_same_record_again_is_no_news_and_no_harm(address_book, identities):
    signed = record(identities[1])
    assert [address_book.add_record(signed) for _ in range(3)] == [True, False, False]


def test_fakes_are_refused(address_book, identities):
    _, ann, bob, cyd = identities
    signed = record(ann)
    by_another = wire.SignedAddress(record=signed.record, signature=bob.sign(signed.record))
    assert reason_of(address_book.add_record, by_another) is Reason.BAD_SIGNATURE
    assert reason_of(address_book.add_record, record(cyd)) is Reason.UNTRUSTED
    garbage = wire.SignedAddress(record=b"\xff\xff", signature=b"")
    assert reason_of(address_book.add_record, garbage) is Reason.MALFORMED
    assert address_book.reachable() == []
    assert address_book.num_peers == 1, "a fake has filled the book"


def test_of_a_list_strangers_and_old_records_are_passed_over(address_book, identities):
    _, ann, bob, cyd = identities
    address_book.add_record(record(ann, 9))
    assert address_book.add_records([record(cyd), record(ann, 8), record(bob)]) == 1
    assert len(address_book.reachable()) == 2


def test_a_list_with_a_fake_is_refused_and_so_is_one_too_long(address_book, identities):
    ann = identities[1]
    fake = wire.SignedAddress(record=record(ann).record, signature=b"0" * 70)
    assert reason_of(address_book.add_records, [fake]) is Reason.BAD_SIGNATURE
    assert (
        reason_of(address_book.add_records, [record(ann)] * (MOST_RECORDS + 1)) is Reason.TOO_LARGE
    )


def test_who_said_goodbye_is_left_out_until_a_new_start(address_book, identities):
    ann = identities[1]
    address_book.add_record(record(ann))
    address_book.mark_left(ann.peer_id, START)
    assert address_book.reachable() == []
    assert len(address_book.records()) == 1
    address_book.add_record(record(ann, 2, LATER_START))
    assert address_book.reachable() == [1]


def test_a_goodbye_of_an_earlier_start_changes_nothing(address_book, identities):
    ann = identities[1]
    address_book.add_record(record(ann, 2, LATER_START))
    assert reason_of(address_book.mark_left, ann.peer_id, START) is Reason.OUTDATED
    assert address_book.reachable() == [1]


def test_who_does_not_answer_rests(identities, trust):
    now = [0.0]
    settings = BreakerSettings(failures=2, first_rest_seconds=1, longest_rest_seconds=1)
    address_book = book(identities, trust, settings=settings, clock=lambda: now[0])
    ann = identities[1].peer_id
    address_book.add_record(record(identities[1]))
    for _ in range(2):
        assert address_book.allow_call(ann)
        address_book.record_failure(ann)
    assert address_book.reachable() == []
    assert not address_book.allow_call(ann)
    assert address_book.unresponsive() == [1]
    now[0] += 2
    assert address_book.reachable() == [], "that its rest is over does not make it answer"
    assert address_book.allow_call(ann)
    address_book.record_success(ann)
    assert address_book.reachable() == [1]
    assert address_book.unresponsive() == []


def test_only_records_of_the_trusted_are_told_as_they_were_signed(address_book, trust, identities):
    _, ann, bob, _ = identities
    signed = record(ann)
    address_book.add_record(signed)
    address_book.add_record(record(bob))
    trust.remove(bob.peer_id)
    told = address_book.records()
    assert told[0] == address_book.my_record
    assert told[1:] == [signed]


def test_what_is_told_fits_into_a_message(tmp_path, identities):
    others = [create_identity(tmp_path / f"key{number}", "n" * 64) for number in range(170)]
    (tmp_path / "trusted").mkdir()
    for other in others:
        (tmp_path / "trusted" / f"{other.peer_id}.pem").write_bytes(other.certificate_pem)
    address_book = book(identities, TrustStore(tmp_path))
    for other in others:
        address_book.add_record(record(other, address=f"{'a' * 60}.{'b' * 60}.{'c' * 60}:7300"))
    told = address_book.records()
    assert 100 < len(told) <= MOST_RECORDS
    assert wire.AddressList(addresses=told).ByteSize() <= MOST_RECORD_BYTES + 2**10
    keys = {each.record for _ in range(20) for each in address_book.records()}
    assert len(keys) == 171, "some are never told"


def test_saved_and_restored(address_book, identities, trust):
    _, ann, bob, _ = identities
    address_book.add_record(record(bob))
    address_book.add_record(record(ann))
    saved = json.loads(json.dumps(address_book.save()))
    trust.remove(bob.peer_id)
    again = book(identities, trust)
    again.restore(saved)
    assert [again.id_of(number) for number in (1, 2)] == [bob.peer_id, ann.peer_id]
    assert again.reachable() == [2], "somebody is known who is no longer trusted"
    assert again.instance != address_book.instance
    assert again.sequence > address_book.sequence


def test_what_an_earlier_version_took_in_is_left_out_if_it_would_be_refused_now(
    address_book, identities, trust
):
    _, ann, bob, _ = identities
    address_book.add_record(record(bob))
    address_book.add_record(record(ann))
    saved = address_book.save()
    absurd = record(bob, sequence=2**64 - 1)
    saved["records"][bob.peer_id] = [absurd.record.hex(), absurd.signature.hex()]
    again = book(identities, trust)
    again.restore(saved)
    assert again.reachable() == [again.number_of(ann.peer_id)]


def test_a_later_start_outranks_the_earlier_even_if_the_clock_was_set_back(identities, trust):
    earlier = book(identities, trust, wall_clock=lambda: 2_000_000.0)
    later = book(identities, trust, wall_clock=lambda: 1_000_000.0)
    later.restore(earlier.save())
    assert later.sequence > earlier.sequence
    told = wire.AddressRecord.FromString(later.my_record.record)
    assert told.sequence == later.sequence


def test_the_book_of_another_peer_is_refused(identities, trust, tmp_path):
    saved = book(identities, trust).save()
    other = book(identities[1:], TrustStore(tmp_path / "other"))
    with pytest.raises(StorageError, match="another peer"):
        other.restore(saved)


def test_another_roster_than_the_saved_one_is_refused(identities, trust):
    ann, bob = identities[1].peer_id, identities[2].peer_id
    saved = book(identities, trust, roster=[ann, bob]).save()
    with pytest.raises(ConfigError, match="roster"):
        book(identities, trust, roster=[bob, ann]).restore(saved)


def test_a_record_of_mine_that_i_did_not_make_is_looked_into(address_book, identities):
    me, ann, *_ = identities
    forged = wire.SignedAddress(record=record(me).record, signature=ann.sign(record(me).record))
    assert reason_of(address_book.add_record, forged) is Reason.BAD_SIGNATURE
    assert address_book.duplicate is None
    address_book.add_record(record(me, 1, START, "127.0.0.1:9"))
    assert address_book.duplicate is not None
    assert address_book.duplicate.address == "127.0.0.1:9"
    assert address_book.reachable() == []


def test_my_own_record_comes_back_to_me(address_book):
    assert not address_book.add_record(address_book.my_record)
    assert address_book.duplicate is None


def test_an_earlier_start_of_mine_is_outranked_once_and_for_all(address_book, identities):
    far_ahead = record(identities[0], address_book.sequence + 10_000, START)
    address_book.add_record(far_ahead)
    address_book.outrank_duplicate()
    told = wire.AddressRecord.FromString(address_book.my_record.record)
    assert told.sequence > wire.AddressRecord.FromString(far_ahead.record).sequence
    assert not address_book.add_record(far_ahead)
    assert address_book.duplicate is None


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_processes_with_one_key_the_later_must_stop(identities, trust, is_first):
    clocks = (1000.0, 2000.0)
    first, second = (book(identities, trust, wall_clock=lambda at=at: at) for at in clocks)
    mine, other = (first, second) if is_first else (second, first)
    mine.add_record(other.my_record)
    mine.handle_duplicate(mine.duplicate)
    assert (mine.conflict is None) == is_first
    if is_first:
        assert mine.sequence > other.sequence, "others would go on asking the one that stops"
