"""Peer discovery: asks known peers for new addresses and retries peers that stopped answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import Reason, Refused
from coterie.peer.types import PeerKey
from coterie.peer.wire.model import ONLY_MODEL, Part, Phase

SOON_SECONDS, LATER_SECONDS = 0.5, 5.0
"""Pauses between searches: while peers are missing, and when all are found."""
_log = logging.getLogger(__name__)


class DiscoveryClient(Protocol):
    """The calls to other peers that discovery needs; see `PeerClient`."""

    async def identify(self, address: str) -> PeerKey | None:
        """Return the peer at an address."""

    async def search_duplicate(self) -> None:
        """Look for another process with this peer's key."""

    async def exchange_addresses(self, peer_id: PeerKey) -> int:
        """Exchange address records with a peer."""

    async def await_phase(self, peer_id: PeerKey, round_number: int, phase: Phase) -> object:
        """Ask for a peer's progress."""

    async def fetch(self, peer_id: PeerKey, *, parts: frozenset[Part]) -> object:
        """Fetch a model."""


class Discovery:
    """Searches for peers as long as this peer runs."""

    def __init__(
        self,
        client: DiscoveryClient,
        address_book: AddressBook,
        addresses: Sequence[str],
        rng: np.random.Generator,
        parts: Callable[[], frozenset[Part]] = lambda: ONLY_MODEL,
    ) -> None:
        self._client = client
        self._address_book = address_book
        self._addresses = list(addresses)
        """Addresses from the settings that have not answered yet."""
        self._rng = rng
        self._introduced_at: dict[PeerKey, str] = {}
        """The address at which this peer introduced itself to each other peer."""
        self._parts = parts
        """Returns the parts that rounds fetch."""
        self._trials: dict[PeerKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Search until cancelled; raise if another process runs with the same key."""
        try:
            while True:
                num_new = await self.run_once()
                left_alone = self._address_book.unresponsive() or self._address_book.resting()
                is_searching = bool(self._addresses or left_alone) or num_new > 0
                await asyncio.sleep(SOON_SECONDS if is_searching else LATER_SECONDS)
        finally:
            await self._end_trials()

    async def run_once(self) -> int:
        """Search once; return the number of new peers."""
        self._begin_trials()
        await asyncio.gather(*(self._dial(address) for address in list(self._addresses)))
        await self._client.search_duplicate()
        if self._address_book.conflict is not None:
            raise self._address_book.conflict
        new = [peer_id for peer_id in self._reachable() if self._is_new(peer_id)]
        await asyncio.gather(*(self._introduce(peer_id) for peer_id in new))
        await asyncio.gather(*(self._retry(peer_id) for peer_id in self._unresponsive()))
        others = [peer_id for peer_id in self._reachable() if peer_id not in new]
        if others:
            await self._introduce(str(self._rng.choice(others)))
        return len(new)

    async def _dial(self, address: str) -> None:
        try:
            await self._client.identify(address)
        except Refused as refused:
            _log.debug("no peer answers at %s: %s", address, refused)
            return
        self._addresses.remove(address)

    async def _introduce(self, peer_id: PeerKey) -> None:
        """Exchange addresses, so that the other peer knows this one from now on."""
        address = self._address_book.address_of(peer_id)
        try:
            await self._client.exchange_addresses(peer_id)
        except Refused as refused:
            _log.debug("%s does not answer: %s", self._address_book.name_of(peer_id), refused)
            return
        if address is not None:
            self._introduced_at[peer_id] = address

    async def _retry(self, peer_id: PeerKey) -> None:
        """Ask an unresponsive peer for its progress, once its rest is over."""
        try:
            await self._client.await_phase(peer_id, 0, Phase.ENTERED)
        except Refused as refused:
            name = self._address_book.name_of(peer_id)
            _log.debug("%s still does not answer: %s", name, refused)

    def _begin_trials(self) -> None:
        """Fetch from peers that have wasted time of rounds, beside the rounds."""
        for number in self._address_book.due_for_trial():
            peer_id = self._address_book.id_of(number)
            if peer_id not in self._trials:
                trial = asyncio.create_task(self._try_fetch(peer_id))
                self._trials[peer_id] = trial
                trial.add_done_callback(partial(self._forget_trial, peer_id))

    def _forget_trial(self, peer_id: PeerKey, trial: asyncio.Task[None]) -> None:
        del self._trials[peer_id]

    async def _try_fetch(self, peer_id: PeerKey) -> None:
        """Fetch a model as a round does, so that the peer cannot recognise a trial."""
        try:
            await self._client.fetch(peer_id, parts=self._parts())
        except Refused as refused:
            # A restarted peer may have no model yet. It says so at once.
            self._address_book.record_trial(peer_id, is_well=refused.reason is Reason.GONE)
            return
        self._address_book.record_trial(peer_id, is_well=True)

    async def _end_trials(self) -> None:
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

    def _is_new(self, peer_id: PeerKey) -> bool:
        return self._introduced_at.get(peer_id) != self._address_book.address_of(peer_id)

    def _reachable(self) -> list[PeerKey]:
        return [self._address_book.id_of(number) for number in self._address_book.reachable()]

    def _unresponsive(self) -> list[PeerKey]:
        return [self._address_book.id_of(number) for number in self._address_book.unresponsive()]
