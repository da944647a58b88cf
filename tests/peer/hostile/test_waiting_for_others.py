"""Where rounds are aligned, nobody can keep the others waiting for longer than a round may take."""

from __future__ import annotations

import asyncio

import pytest
from peer.network_of_peers import SimpleService, network, settings_of

from coterie.peer.event_loop_bridge import EventLoopBridge
from coterie.peer.transport_settings import DeadlineSettings
from coterie.peer.wire.model import Phase

LONG_SECONDS = 300


class Hasty(SimpleService):
    """Answers at once, although it was asked to wait."""

    async def wait_for_phase(self, *_: object) -> tuple[int, Phase, int | None]:
        return 0, Phase.ENTERED, None


class Silent(SimpleService):
    """Never answers."""

    async def wait_for_phase(self, *_: object) -> tuple[int, Phase, int | None]:
        await asyncio.sleep(LONG_SECONDS)
        raise AssertionError("somebody waited for it")


@pytest.mark.parametrize(("service", "patience"), [(Hasty, LONG_SECONDS), (Silent, 0.5)])
def test_who_does_not_come_is_left_behind(tmp_path, service, patience):
    async def scenario() -> None:
        settings = settings_of(deadlines={"call_seconds": LONG_SECONDS})
        async with network(tmp_path, 3, settings=settings) as (me, honest, late):
            honest.service.round, honest.service.phase = 5, Phase.PUBLISHED
            late.server._handlers._service = service()
            deadlines = DeadlineSettings(round_seconds=patience, call_seconds=LONG_SECONDS)
            bridge = EventLoopBridge(me.client, me.address_book, None, deadlines, synchronous=True)
            async with asyncio.timeout(60):
                await asyncio.to_thread(bridge.wait_for_others, 5, Phase.PUBLISHED)
                known = await asyncio.to_thread(bridge.reachable_peers)
            assert known == [me.address_book.number_of(honest.id)]
            assert len(me.address_book.reachable()) == 2, "it is not ill, only late"
            assert me.context.traffic.calls[late.id, "Await"] == 1

    asyncio.run(scenario())
