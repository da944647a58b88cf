"""The address book of a peer: ids, numbers and addresses of others, and which of them respond."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.errors import ConfigError, StorageError
from coterie.peer.discovery.addresses import Address, open_address, sign_address
from coterie.peer.discovery.circuit_breaker import BreakerState, CircuitBreaker
from coterie.peer.discovery.wait_budget import WaitBudget
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.identity import Identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport_settings import BreakerSettings
from coterie.peer.types import Clock, PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.field_bounds import INSTANCE_BYTES, LARGEST_SEQUENCE, MOST_RECORDS
from coterie.peer.wire.methods import REQUEST_BYTES, parse

MOST_RECORD_BYTES = REQUEST_BYTES - 2**12
"""Size limit of all records together, so that the list fits into a request."""
ME = 0


@dataclass
class _PeerEntry:
    """What is known about one other peer."""

    breaker: CircuitBreaker
    wait_budget: WaitBudget
    address: Address | None = None
    signed: wire.SignedAddress | None = None
    gone_instance: bytes | None = None
    """The process that said goodbye, by its instance."""

    @property
    def has_left(self) -> bool:
        return self.address is not None and self.address.instance == self.gone_instance

    @property
    def is_asked(self) -> bool:
        return self.breaker.state is BreakerState.CLOSED and not self.wait_budget.is_resting


@dataclass
class AddressBook:
    """The address book of one peer.

    This peer has number 0. Others have numbers in the order of the roster, then in the order in
    which they are first met. A number is never used again. Only trusted peers get one, so that
    strangers cannot fill the book.
    """

    identity: Identity
    trust: TrustStore
    roster: Sequence[PeerKey] = ()
    settings: BreakerSettings = field(default_factory=BreakerSettings)
    clock: Clock = time.monotonic
    wall_clock: Clock = time.time
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    conflict: ConfigError | None = None
    """Set when this process must stop, because an earlier one runs with the same key."""

    def __post_init__(self) -> None:
        self.instance = secrets.token_bytes(INSTANCE_BYTES)
        self.sequence = int(self.wall_clock() * 1000)
        self._ids: list[PeerKey] = [self.identity.peer_id]
        self._numbers: dict[PeerKey, int] = {self.identity.peer_id: ME}
        self._entries: dict[PeerKey, _PeerEntry] = {}
        self._my_record: wire.SignedAddress | None = None
        self.my_address: str | None = None
        self.duplicate: Address | None = None
        """The address at which another process with this peer's key was reported."""
        self._past_instance = b""
        for peer_id in self.roster:
            self._meet(peer_id)

    @property
    def my_record(self) -> wire.SignedAddress:
        """Return the signed address of this peer; call `announce` before."""
        if self._my_record is None:
            raise RuntimeError(
                "Call AddressBook.announce before this peer's address is sent to others."
            )
        return self._my_record

    def announce(self, address: str) -> None:
        """Set and sign the address of this peer."""
        self.sequence += self.my_address is not None
        self.my_address = address
        self._sign()

    def number_of(self, peer_id: PeerKey) -> int:
        """Return the number of a known peer."""
        return self._numbers[peer_id]

    def id_of(self, number: int) -> PeerKey:
        """Return the id of a number."""
        return self._ids[number]

    @property
    def num_peers(self) -> int:
        """Return the number of known peers, including this one."""
        return len(self._ids)

    def has_met(self, peer_id: PeerKey) -> bool:
        """Return whether a peer has a number."""
        return peer_id in self._numbers

    def address_of(self, peer_id: PeerKey) -> str | None:
        """Return the address of a peer; None if it is not known."""
        entry = self._entries.get(peer_id)
        return None if entry is None or entry.address is None else entry.address.address

    def instance_of(self, peer_id: PeerKey) -> bytes | None:
        """Return the instance of a peer's process, new with every start; None if unknown."""
        entry = self._entries.get(peer_id)
        return None if entry is None or entry.address is None else entry.address.instance

    def name_of(self, peer_id: PeerKey) -> str:
        """Return the name in a peer's certificate, or the start of its id."""
        if peer_id == self.identity.peer_id:
            return self.identity.name
        certificate = self.trust.get(peer_id)
        return peer_id[:8] if certificate is None else certificate.name

    def reachable(self) -> list[int]:
        """Return the numbers of peers that are trusted, present and may be called."""
        return self._numbers_where(lambda entry: entry.is_asked)

    def unresponsive(self) -> list[int]:
        """Return the numbers of present peers that get no calls after failures."""
        return self._numbers_where(lambda entry: entry.breaker.state is not BreakerState.CLOSED)

    def resting(self) -> list[int]:
        """Return the numbers of peers that rounds leave out because they wasted time."""
        return self._numbers_where(lambda entry: entry.wait_budget.is_resting)

    def due_for_trial(self) -> list[int]:
        """Return the numbers of resting peers that may be tried again beside the rounds.

        Peers that do not answer at all are retried in another way, see `unresponsive`.
        """
        return self._numbers_where(
            lambda entry: entry.wait_budget.is_due and entry.breaker.state is BreakerState.CLOSED
        )

    def _numbers_where(self, applies: Callable[[_PeerEntry], bool]) -> list[int]:
        return sorted(
            self._numbers[peer_id]
            for peer_id, entry in self._entries.items()
            if entry.address is not None
            and not entry.has_left
            and applies(entry)
            and self.trust.is_trusted(peer_id)
        )

    def records(self) -> list[wire.SignedAddress]:
        """Return the address records to send: this peer's and those of trusted peers, as signed.

        If one message cannot hold all, each call returns a random selection.
        """
        records = [self.my_record]
        num_bytes = records[0].ByteSize()
        entries = list(self._entries.items())
        for place in self.rng.permutation(len(entries)):
            peer_id, entry = entries[place]
            if entry.signed is None or entry.has_left or not self.trust.is_trusted(peer_id):
                continue
            num_bytes += entry.signed.ByteSize() + 8
            if len(records) == MOST_RECORDS or num_bytes > MOST_RECORD_BYTES:
                break
            records.append(entry.signed)
        return records

    def add_record(self, signed: wire.SignedAddress) -> bool:
        """Add an address record; return whether it is new, and refuse forged or outdated ones.

        The signature is verified only if the record would change something: it takes 0.1 ms, and
        any trusted peer may send many.
        """
        claimed = parse(wire.AddressRecord, signed.record)
        peer_id = claimed.peer_id.hex()
        if peer_id == self.identity.peer_id:
            return self._take_mine(signed, claimed)
        entry = self._entries.get(peer_id)
        if entry is not None and entry.signed is not None and entry.address is not None:
            if entry.signed == signed:
                return False
            if claimed.sequence <= entry.address.sequence:
                raise Refused(
                    Reason.OUTDATED,
                    f"an address of {peer_id[:8]} that is not newer than the known one",
                )
        address = open_address(signed, self.trust)
        entry = self._meet(peer_id)
        entry.address, entry.signed = address, signed
        return True

    def add_records(self, records: Iterable[wire.SignedAddress]) -> int:
        """Add the records of another peer's list; return the number of new ones.

        Outdated records and those of untrusted peers are skipped: an honest peer may send them. Any
        other fault refuses the record and the rest of the list.
        """
        num_news = 0
        for count, signed in enumerate(records):
            if count == MOST_RECORDS:
                raise Refused(Reason.TOO_LARGE, f"more than {MOST_RECORDS} addresses in one list")
            try:
                num_news += self.add_record(signed)
            except Refused as refused:
                if refused.reason not in (Reason.OUTDATED, Reason.UNTRUSTED):
                    raise
        return num_news

    def mark_left(self, peer_id: PeerKey, instance: bytes) -> None:
        """Record that a peer leaves; refuse an earlier process's goodbye: it may be a replay."""
        entry = self._entries.get(peer_id)
        if entry is None or entry.address is None:
            return
        if entry.address.instance != instance:
            raise Refused(Reason.OUTDATED, "a goodbye of another process of this peer")
        entry.gone_instance = instance

    def mark_present(self, peer_id: PeerKey, instance: bytes) -> None:
        """Record that a process of a peer is running: it has not left and may be called again."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            entry.breaker.record_sign_of_life()
            if entry.gone_instance == instance:
                entry.gone_instance = None

    def record_sign_of_life(self, peer_id: PeerKey) -> None:
        """Record a call from a peer."""
        if entry := self._entries.get(peer_id):
            entry.breaker.record_sign_of_life()

    def allow_call(self, peer_id: PeerKey) -> bool:
        """Return whether a peer may be called now; this may use up its one trial call."""
        entry = self._entries.get(peer_id)
        return entry is None or entry.breaker.allow_call()

    def record_success(self, peer_id: PeerKey) -> None:
        """Record that a peer answered."""
        if entry := self._entries.get(peer_id):
            entry.breaker.record_success()

    def record_failure(self, peer_id: PeerKey) -> None:
        """Record that a peer did not answer as it should."""
        if entry := self._entries.get(peer_id):
            entry.breaker.record_failure()

    def is_resting(self, peer_id: PeerKey) -> bool:
        """Return whether rounds leave out a peer because it wasted time."""
        entry = self._entries.get(peer_id)
        return entry is not None and entry.wait_budget.is_resting

    def record_waste(self, peer_id: PeerKey, seconds: float) -> None:
        """Record that a round waited so long for a peer in vain."""
        if entry := self._entries.get(peer_id):
            entry.wait_budget.record_waste(seconds)

    def record_trial(self, peer_id: PeerKey, *, is_well: bool) -> None:
        """Record the result of a trial beside the rounds."""
        if entry := self._entries.get(peer_id):
            entry.wait_budget.record_trial(is_well=is_well)

    def handle_duplicate(self, other: Address) -> None:
        """Handle another process with this peer's key: the one that started later must stop.

        The remaining one signs its address again, with a higher sequence than the other's. It must
        answer the other with its old record before, or both would believe that they came first.
        """
        if other.instance == self.instance:
            return
        if other.sequence < self.sequence and self.conflict is None:
            self.conflict = ConfigError(
                f"Another process at {other.address} runs with the key of "
                f"'{self.identity.name}'; others cannot tell two with the same key apart. Stop "
                "that process first, or create a new peer with `coterie peer init NAME`."
            )
        self._outrank(other.sequence)

    def outrank_duplicate(self) -> None:
        """Replace the reported address of a duplicate at which no process answers any more."""
        if self.duplicate is not None:
            self._outrank(self.duplicate.sequence)
            self._past_instance = self.duplicate.instance
            self.duplicate = None

    def save(self) -> dict[str, Any]:
        """Return the state to keep for a later start, as plain data."""
        records = {
            peer_id: [entry.signed.record.hex(), entry.signed.signature.hex()]
            for peer_id, entry in self._entries.items()
            if entry.signed is not None
        }
        return {"sequence": self.sequence, "ids": list(self._ids), "records": records}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore numbers and addresses of an earlier start, without records of untrusted peers."""
        ids = list(saved["ids"])
        if not ids or ids[0] != self.identity.peer_id:
            raise StorageError(
                "The saved address book belongs to another peer. Restore the one of this folder, "
                "or move the saved state away to start without it."
            )
        if ids[1 : 1 + len(self.roster)] != self._ids[1:]:
            raise ConfigError(
                "The roster is not the one this peer started with, so saved numbers would mean "
                "other peers. Restore the roster in peer.yaml, or start again in a new folder."
            )
        for peer_id in ids[1:]:
            self._meet(peer_id)
        self._outrank(int(saved["sequence"]))  # even if the clock was set back since
        for record, signature in saved["records"].values():
            signed = wire.SignedAddress(
                record=bytes.fromhex(record), signature=bytes.fromhex(signature)
            )
            with suppress(Refused):  # an earlier version may have accepted what this one refuses
                self.add_records([signed])

    def _take_mine(self, signed: wire.SignedAddress, claimed: wire.AddressRecord) -> bool:
        """Keep the address of another process with this key; ignore that of an earlier start."""
        if claimed.instance in (self.instance, self._past_instance):
            return False
        if self.duplicate is not None and claimed.sequence <= self.duplicate.sequence:
            return False
        self.duplicate = open_address(signed, self.trust, self.identity)
        return True

    def _outrank(self, sequence: int) -> None:
        if self.sequence <= sequence < LARGEST_SEQUENCE:
            self.sequence = sequence + 1
            if self.my_address is not None:
                self._sign()

    def _sign(self) -> None:
        address = self.my_address or ""
        self._my_record = sign_address(self.identity, address, self.sequence, self.instance)

    def _meet(self, peer_id: PeerKey) -> _PeerEntry:
        """Return the entry of a peer; a new peer gets the next number."""
        if peer_id not in self._numbers:
            self._numbers[peer_id] = len(self._ids)
            self._ids.append(peer_id)
        if peer_id not in self._entries and peer_id != self.identity.peer_id:
            breaker = CircuitBreaker(self.settings, self.clock, self.rng)
            self._entries[peer_id] = _PeerEntry(breaker, WaitBudget(self.settings, self.clock))
        return self._entries[peer_id]
