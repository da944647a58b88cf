"""Keeps in touch with others: finds newcomers, and tries again peers that were left alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from coterie.peer.discovery.members import Members
from coterie.peer.refusals import Reason, Rejected
from coterie.peer.transport.interface import Part, PeerKey, Phase
from coterie.peer.transport.peer_client import ONLY_MODEL, PeerClient

SOON_SECONDS, LATER_SECONDS = 0.5, 5.0
"""How often others are asked whom they know: while somebody is still to be found, and after."""
_log = logging.getLogger(__name__)


class Meeting:
    """Runs beside everything else, as long as the peer does."""

    def __init__(
        self,
        client: PeerClient,
        members: Members,
        addresses: Sequence[str],
        rng: np.random.Generator,
        parts: Callable[[], frozenset[Part]] = lambda: ONLY_MODEL,
    ) -> None:
        self._client = client
        self._members = members
        self._addresses = list(addresses)
        """Of the settings, at which nobody has answered yet."""
        self._rng = rng
        self._greeted: dict[PeerKey, str] = {}
        """To whom I have made myself known, and where."""
        self._parts = parts
        """What rounds fetch of others."""
        self._trials: dict[PeerKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Meet others for ever; raise if another process runs with my key."""
        try:
            while True:
                num_news = await self.meet_once()
                left_alone = self._members.silent() or self._members.resting()
                is_searching = bool(self._addresses or left_alone) or num_news > 0
                await asyncio.sleep(SOON_SECONDS if is_searching else LATER_SECONDS)
        finally:
            await self._end_trials()

    async def meet_once(self) -> int:
        """Look for everybody who is not met yet; return how many were new."""
        self._begin_trials()
        await asyncio.gather(*(self._dial(address) for address in list(self._addresses)))
        await self._client.search_double()
        if self._members.conflict is not None:
            raise self._members.conflict
        news = [who for who in self._reachable() if self._is_new(who)]
        await asyncio.gather(*(self._introduce(who) for who in news))
        await asyncio.gather(*(self._look_after(who) for who in self._silent()))
        others = [who for who in self._reachable() if who not in news]
        if others:
            await self._introduce(str(self._rng.choice(others)))
        return len(news)

    async def _dial(self, address: str) -> None:
        try:
            await self._client.meet(address)
        except Rejected as refused:
            _log.debug("nobody answers at %s: %s", address, refused)
            return
        self._addresses.remove(address)

    async def _introduce(self, who: PeerKey) -> None:
        """Exchange addresses, mine included: who did not know me, does from now on."""
        address = self._members.address_of(who)
        try:
            await self._client.exchange_addresses(who)
        except Rejected as refused:
            _log.debug("%s does not answer: %s", self._members.name_of(who), refused)
            return
        if address is not None:
            self._greeted[who] = address

    async def _look_after(self, who: PeerKey) -> None:
        """Ask somebody who did not answer for a sign of life, once its rest is over."""
        try:
            await self._client.await_phase(who, 0, Phase.ENTERED)
        except Rejected as refused:
            _log.debug("%s is still silent: %s", self._members.name_of(who), refused)

    def _begin_trials(self) -> None:
        """Fetch from peers that have wasted time of rounds, beside the rounds."""
        for number in self._members.due():
            who = self._members.id_of(number)
            if who not in self._trials:
                trial = asyncio.create_task(self._try_again(who))
                self._trials[who] = trial
                trial.add_done_callback(partial(self._forget_trial, who))

    def _forget_trial(self, who: PeerKey, trial: asyncio.Task[None]) -> None:
        del self._trials[who]

    async def _try_again(self, who: PeerKey) -> None:
        """Fetch a model as a round would, so that nothing shows that it is only a trial."""
        try:
            await self._client.fetch(who, parts=self._parts())
        except Rejected as refused:
            # A peer that was started again may have no model yet, which it says at once.
            self._members.tried(who, is_well=refused.reason is Reason.GONE)
            return
        self._members.tried(who, is_well=True)

    async def _end_trials(self) -> None:
        trials = list(self._trials.values())
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

    def _is_new(self, who: PeerKey) -> bool:
        return self._greeted.get(who) != self._members.address_of(who)

    def _reachable(self) -> list[PeerKey]:
        return [self._members.id_of(number) for number in self._members.known()]

    def _silent(self) -> list[PeerKey]:
        return [self._members.id_of(number) for number in self._members.silent()]
