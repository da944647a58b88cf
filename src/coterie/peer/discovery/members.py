"""Who is there: ids and small numbers, addresses, who has left, and who does not answer."""

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
from coterie.peer.refusals import Reason, Rejected
from coterie.peer.security.identity import Identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport.call_limits import Clock
from coterie.peer.transport.circuit_breaker import Breaker, State
from coterie.peer.transport.interface import PeerKey
from coterie.peer.transport.methods import REQUEST_BYTES, parse
from coterie.peer.transport.patience import Patience
from coterie.peer.transport.settings import BreakerSettings
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.field_bounds import INSTANCE_BYTES, LARGEST_SEQUENCE, MOST_RECORDS

MOST_RECORD_BYTES = REQUEST_BYTES - 2**12
"""Of all records together, so that the list fits into a request."""
ME = 0


@dataclass
class _Member:
    """What is known about one peer."""

    breaker: Breaker
    patience: Patience
    address: Address | None = None
    signed: wire.SignedAddress | None = None
    gone_instance: bytes | None = None
    """The start of the process that said goodbye."""

    @property
    def has_left(self) -> bool:
        return self.address is not None and self.address.instance == self.gone_instance

    @property
    def is_asked(self) -> bool:
        return self.breaker.state is State.CLOSED and not self.patience.is_resting


@dataclass
class Members:
    """The address book of one peer.

    I am number 0; others have numbers in the order of the roster, then in the order in which they
    are first met. A number is never used again. Only trusted peers get one, so that strangers
    cannot fill the book.
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
        self._members: dict[PeerKey, _Member] = {}
        self._my_record: wire.SignedAddress | None = None
        self.my_address: str | None = None
        self.double: Address | None = None
        """Where somebody with my own key is said to be."""
        self._past_instance = b""
        for peer_id in self.roster:
            self._meet(peer_id)

    @property
    def my_record(self) -> wire.SignedAddress:
        """Return my signed address; `announce` comes first."""
        if self._my_record is None:
            raise RuntimeError("Members.announce must be called before anything is said to others.")
        return self._my_record

    def announce(self, address: str) -> None:
        """Say from now on that I am found at this address."""
        self.sequence += self.my_address is not None
        self.my_address = address
        self._sign()

    def number(self, peer_id: PeerKey) -> int:
        """Return the number of somebody who has been met."""
        return self._numbers[peer_id]

    def id_of(self, number: int) -> PeerKey:
        """Return the id behind a number."""
        return self._ids[number]

    @property
    def num_peers(self) -> int:
        """Return how many numbers there are, mine included."""
        return len(self._ids)

    def has_met(self, peer_id: PeerKey) -> bool:
        """Return whether somebody has a number."""
        return peer_id in self._numbers

    def address_of(self, peer_id: PeerKey) -> str | None:
        """Return where a peer is found, if that is known."""
        member = self._members.get(peer_id)
        return None if member is None or member.address is None else member.address.address

    def instance_of(self, peer_id: PeerKey) -> bytes | None:
        """Return by which start of its process a peer is known."""
        member = self._members.get(peer_id)
        return None if member is None or member.address is None else member.address.instance

    def name_of(self, peer_id: PeerKey) -> str:
        """Return what a peer's certificate calls it, or the start of its id."""
        if peer_id == self.identity.peer_id:
            return self.identity.name
        certificate = self.trust.get(peer_id)
        return peer_id[:8] if certificate is None else certificate.name

    def known(self) -> list[int]:
        """Return the numbers of peers that are trusted, there, and not left alone."""
        return self._numbers_where(lambda member: member.is_asked)

    def silent(self) -> list[int]:
        """Return the numbers of peers that should be there, but were left alone after failures."""
        return self._numbers_where(lambda member: member.breaker.state is not State.CLOSED)

    def resting(self) -> list[int]:
        """Return the numbers of peers that rounds do without, because they wasted time."""
        return self._numbers_where(lambda member: member.patience.is_resting)

    def due(self) -> list[int]:
        """Return the numbers of resting peers that may be tried again beside the rounds.

        One that is not there at all is looked for in another way, see `silent`.
        """
        return self._numbers_where(
            lambda member: member.patience.is_due and member.breaker.state is State.CLOSED
        )

    def _numbers_where(self, applies: Callable[[_Member], bool]) -> list[int]:
        return sorted(
            self._numbers[peer_id]
            for peer_id, member in self._members.items()
            if member.address is not None
            and not member.has_left
            and applies(member)
            and self.trust.is_trusted(peer_id)
        )

    def records(self) -> list[wire.SignedAddress]:
        """Return what to tell others: my address and those of trusted peers, as they signed them.

        If there are too many for one message, others at every time.
        """
        told = [self.my_record]
        num_bytes = told[0].ByteSize()
        everybody = list(self._members.items())
        for place in self.rng.permutation(len(everybody)):
            peer_id, member = everybody[place]
            if member.signed is None or member.has_left or not self.trust.is_trusted(peer_id):
                continue
            num_bytes += member.signed.ByteSize() + 8
            if len(told) == MOST_RECORDS or num_bytes > MOST_RECORD_BYTES:
                break
            told.append(member.signed)
        return told

    def take(self, signed: wire.SignedAddress) -> bool:
        """Take in an address record; return whether it is news, refuse it if it is a fake or old.

        A signature is only verified where it would change something: it takes 0.1 ms, and anybody
        trusted may send many.
        """
        claimed = parse(wire.AddressRecord, signed.record)
        peer_id = claimed.peer_id.hex()
        if peer_id == self.identity.peer_id:
            return self._take_mine(signed, claimed)
        member = self._members.get(peer_id)
        if member is not None and member.signed is not None and member.address is not None:
            if member.signed == signed:
                return False
            if claimed.sequence <= member.address.sequence:
                raise Rejected(
                    Reason.OUTDATED,
                    f"an address of {peer_id[:8]} that is not newer than the one known",
                )
        address = open_address(signed, self.trust)
        member = self._meet(peer_id)
        member.address, member.signed = address, signed
        return True

    def take_all(self, records: Iterable[wire.SignedAddress]) -> int:
        """Take in what somebody knows; return how many were news.

        Others may know what is older, and may trust whom I do not: that is passed over. A record
        that nobody honest would pass on is refused, and all after it.
        """
        num_news = 0
        for count, signed in enumerate(records):
            if count == MOST_RECORDS:
                raise Rejected(Reason.TOO_LARGE, f"more than {MOST_RECORDS} addresses at once")
            try:
                num_news += self.take(signed)
            except Rejected as refused:
                if refused.reason not in (Reason.OUTDATED, Reason.UNTRUSTED):
                    raise
        return num_news

    def goodbye(self, peer_id: PeerKey, instance: bytes) -> None:
        """Note that a peer leaves; one of an earlier start is refused, it may be a replay."""
        member = self._members.get(peer_id)
        if member is None or member.address is None:
            return
        if member.address.instance != instance:
            raise Rejected(Reason.OUTDATED, "a goodbye of another start of this peer")
        member.gone_instance = instance

    def returned(self, peer_id: PeerKey, instance: bytes) -> None:
        """Note a sign of life of a running process: it has not left, and may be asked again."""
        member = self._members.get(peer_id)
        if member is not None:
            member.breaker.heard()
            if member.gone_instance == instance:
                member.gone_instance = None

    def heard(self, peer_id: PeerKey) -> None:
        """Note a call from a peer."""
        if member := self._members.get(peer_id):
            member.breaker.heard()

    def allows(self, peer_id: PeerKey) -> bool:
        """Return whether a peer may be asked now."""
        member = self._members.get(peer_id)
        return member is None or member.breaker.allows()

    def succeeded(self, peer_id: PeerKey) -> None:
        """Note that a peer answered."""
        if member := self._members.get(peer_id):
            member.breaker.succeeded()

    def failed(self, peer_id: PeerKey) -> None:
        """Note that a peer did not answer as it should."""
        if member := self._members.get(peer_id):
            member.breaker.failed()

    def is_resting(self, peer_id: PeerKey) -> bool:
        """Return whether rounds go on without a peer, because it has wasted their time."""
        member = self._members.get(peer_id)
        return member is not None and member.patience.is_resting

    def waste(self, peer_id: PeerKey, seconds: float) -> None:
        """Note that a round has waited so long in vain for a peer."""
        if member := self._members.get(peer_id):
            member.patience.waste(seconds)

    def tried(self, peer_id: PeerKey, *, is_well: bool) -> None:
        """Note how a trial beside the rounds went."""
        if member := self._members.get(peer_id):
            member.patience.tried(is_well=is_well)

    def meet_double(self, other: Address) -> None:
        """Another process with my key is running: whichever started later must stop.

        The one that stays says its address anew, above what the other has told everybody; it must
        have answered with its old record before, or both would think that they came first.
        """
        if other.instance == self.instance:
            return
        if other.sequence < self.sequence and self.conflict is None:
            self.conflict = ConfigError(
                f"Another process runs with the key of '{self.identity.name}' at {other.address}; "
                "two with the same key would be taken for one. Stop that one first, or give this "
                "one a key of its own with `coterie peer init NAME`."
            )
        self._outrank(other.sequence)

    def outrank_double(self) -> None:
        """Nobody answers under the other address of mine: what is said about it is past."""
        if self.double is not None:
            self._outrank(self.double.sequence)
            self._past_instance = self.double.instance
            self.double = None

    def save(self) -> dict[str, Any]:
        """Return what a later start needs to know, as plain data."""
        records = {
            peer_id: [member.signed.record.hex(), member.signed.signature.hex()]
            for peer_id, member in self._members.items()
            if member.signed is not None
        }
        return {"sequence": self.sequence, "ids": list(self._ids), "records": records}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up numbers and addresses of an earlier start; whom I no longer trust, stays out."""
        ids = list(saved["ids"])
        if not ids or ids[0] != self.identity.peer_id:
            raise StorageError(
                "The saved address book belongs to another peer. Restore the folder's own, or "
                "start without what was saved."
            )
        if ids[1 : 1 + len(self.roster)] != self._ids[1:]:
            raise ConfigError(
                "The roster is not the one this peer began with, so saved numbers would mean "
                "others. Restore the roster in peer.yaml, or start anew in another folder."
            )
        for peer_id in ids[1:]:
            self._meet(peer_id)
        self._outrank(int(saved["sequence"]))  # even if the clock has jumped back since
        for record, signature in saved["records"].values():
            signed = wire.SignedAddress(
                record=bytes.fromhex(record), signature=bytes.fromhex(signature)
            )
            with suppress(Rejected):  # what an earlier version took in may not be so any more
                self.take_all([signed])

    def _take_mine(self, signed: wire.SignedAddress, claimed: wire.AddressRecord) -> bool:
        """Take note of another process with my key, or of what an earlier start said."""
        if claimed.instance in (self.instance, self._past_instance):
            return False
        if self.double is not None and claimed.sequence <= self.double.sequence:
            return False
        self.double = open_address(signed, self.trust, self.identity)
        return True

    def _outrank(self, sequence: int) -> None:
        if self.sequence <= sequence < LARGEST_SEQUENCE:
            self.sequence = sequence + 1
            if self.my_address is not None:
                self._sign()

    def _sign(self) -> None:
        address = self.my_address or ""
        self._my_record = sign_address(self.identity, address, self.sequence, self.instance)

    def _meet(self, peer_id: PeerKey) -> _Member:
        """Give somebody a number, who may have one already."""
        if peer_id not in self._numbers:
            self._numbers[peer_id] = len(self._ids)
            self._ids.append(peer_id)
        if peer_id not in self._members and peer_id != self.identity.peer_id:
            breaker = Breaker(self.settings, self.clock, self.rng)
            self._members[peer_id] = _Member(breaker, Patience(self.settings, self.clock))
        return self._members[peer_id]
