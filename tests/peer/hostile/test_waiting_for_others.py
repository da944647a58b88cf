"""Where rounds are aligned, nobody can keep the others waiting for longer than a round may take."""

from __future__ import annotations

import asyncio

import pytest
from peer.network_of_peers import SimpleHost, network, settings_of

from coterie.peer.event_loop_bridge import Link
from coterie.peer.transport.interface import Phase
from coterie.peer.transport.settings import DeadlineSettings

LONG_SECONDS = 300


class Hasty(SimpleHost):
    """Answers at once, although it was asked to wait."""

    async def reached(self, *_: object) -> tuple[int, Phase, int | None]:
        return 0, Phase.ENTERED, None


class Silent(SimpleHost):
    """Never answers."""

    async def reached(self, *_: object) -> tuple[int, Phase, int | None]:
        await asyncio.sleep(LONG_SECONDS)
        raise AssertionError("somebody waited for it")


@pytest.mark.parametrize(("host", "patience"), [(Hasty, LONG_SECONDS), (Silent, 0.5)])
def test_who_does_not_come_is_left_behind(tmp_path, host, patience):
    async def scenario() -> None:
        settings = settings_of(deadlines={"call_seconds": LONG_SECONDS})
        async with network(tmp_path, 3, settings=settings) as (me, honest, late):
            honest.host.round, honest.host.phase = 5, Phase.PUBLISHED
            late.server._handlers._host = host()
            deadlines = DeadlineSettings(round_seconds=patience, call_seconds=LONG_SECONDS)
            link = Link(me.client, me.members, None, deadlines, synchronous=True)
            async with asyncio.timeout(60):
                await asyncio.to_thread(link.wait_for_others, 5, Phase.PUBLISHED)
                known = await asyncio.to_thread(link.known)
            assert known == [me.members.number(honest.id)]
            assert len(me.members.known()) == 2, "it is not ill, only late"
            assert me.station.traffic.calls[late.id, "Await"] == 1

    asyncio.run(scenario())
