"""One reader for all viewers of the live page; the runs are read only while there are viewers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TypeAlias

from coterie.reports.live.page_updates import PageParts, PageUpdates

READ_SECONDS = 1.0
"""Minimum time between two readings of the runs."""
ALIVE_SECONDS = 15.0
"""Time without updates after which viewers get a sign that the connection is alive."""
Event: TypeAlias = tuple[str, str]
"""The type of a server-sent event and its data, in one line."""
UPDATE, END, ALIVE = "update", "end", "alive"

_log = logging.getLogger(__name__)


class Broadcaster:
    """Sends each viewer the parts of the page that are new to this viewer."""

    def __init__(self, updates: PageUpdates) -> None:
        self._updates = updates
        self._version = 0
        self._parts: dict[str, tuple[int, str]] = {}
        """The version in which each part last changed, and its JSON."""
        self._news = asyncio.Condition()
        self._updating = asyncio.Lock()
        self._num_viewers = 0
        self._reader: asyncio.Task[None] | None = None
        self._is_over = False

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of one viewer: first all parts, then changed parts."""
        self._num_viewers += 1
        try:
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read())
            seen = 0
            while True:
                seen_before, seen = seen, self._version
                if seen > seen_before:
                    yield UPDATE, self._changes_since(seen_before)
                if self._is_over and self._version == seen:
                    yield END, "{}"
                    return
                if not await self._wait_for_news(seen):
                    yield ALIVE, "{}"
        finally:
            self._num_viewers -= 1

    async def finish(self) -> None:
        """Send the last updates, and end the events of all viewers."""
        if self._num_viewers:
            await self._update(is_last=True)
        self._is_over = True
        if self._reader is not None:
            self._reader.cancel()
        async with self._news:
            self._news.notify_all()

    def _changes_since(self, version: int) -> str:
        """Return JSON: the names of all parts, and the parts that changed after a version."""
        changed = (
            f"{json.dumps(name)}:{text}"
            for name, (since, text) in self._parts.items()
            if since > version
        )
        return f'{{"names":{json.dumps(list(self._parts))},"parts":{{{",".join(changed)}}}}}'

    async def _wait_for_news(self, seen: int) -> bool:
        async with self._news:
            try:
                await asyncio.wait_for(
                    self._news.wait_for(lambda: self._version > seen or self._is_over),
                    ALIVE_SECONDS,
                )
            except TimeoutError:
                return False
        return True

    async def _read(self) -> None:
        """Read the runs repeatedly while there are viewers."""
        while self._num_viewers and not self._is_over:
            await self._update()
            await asyncio.sleep(READ_SECONDS)

    async def _update(self, *, is_last: bool = False) -> None:
        async with self._updating:
            parts = await asyncio.to_thread(self._collect, is_last)
            if parts is not None:
                await self._publish(parts)

    def _collect(self, is_last: bool) -> PageParts | None:
        try:
            return self._updates.collect(is_last=is_last)
        except Exception:  # an old page is better than none
            _log.exception("The recorded data could not be shown. The live view tries again.")
            return None

    async def _publish(self, parts: PageParts) -> None:
        version = self._version + 1
        self._parts = {
            name: old
            if (old := self._parts.get(name, (0, ""))) and old[1] == text
            else (version, text)
            for name, text in parts.items()
        }
        self._version = version
        async with self._news:
            self._news.notify_all()
