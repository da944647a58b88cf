"""One reader, many viewers: the runs are looked at while somebody watches, and never too often."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TypeAlias

from coterie.reports.live.page_updates import Parts, Teller

LOOK_SECONDS = 1.0
"""How often the runs are looked at, at most."""
ALIVE_SECONDS = 15.0
"""How often a viewer is told that the connection stands, if there is nothing else to tell."""
Event: TypeAlias = tuple[str, str]
"""The kind of a server-sent event and its data, in one line."""
UPDATE, END, ALIVE = "update", "end", "alive"

_log = logging.getLogger(__name__)


class Hub:
    """Keeps what is to be shown, and tells every viewer what is new to him."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._version = 0
        self._parts: dict[str, tuple[int, str]] = {}
        """Each part as JSON, and the version in which it came to be what it is."""
        self._news = asyncio.Condition()
        self._looking = asyncio.Lock()
        self._num_viewers = 0
        self._reader: asyncio.Task[None] | None = None
        self._is_over = False

    async def events(self) -> AsyncIterator[Event]:
        """Yield what a viewer is to be told: everything at first, then what has changed."""
        self._num_viewers += 1
        try:
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read())
            seen = 0
            while True:
                seen_before, seen = seen, self._version
                if seen > seen_before:
                    yield UPDATE, self._since(seen_before)
                if self._is_over and self._version == seen:
                    yield END, "{}"
                    return
                if not await self._wait_for_news(seen):
                    yield ALIVE, "{}"
        finally:
            self._num_viewers -= 1

    async def finish(self) -> None:
        """Look a last time, and let all viewers go."""
        if self._num_viewers:
            await self._look(is_last=True)
        self._is_over = True
        if self._reader is not None:
            self._reader.cancel()
        async with self._news:
            self._news.notify_all()

    def _since(self, version: int) -> str:
        """Return as JSON the names of all parts, and those that have changed after a version."""
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
        """Look again and again, as long as somebody watches."""
        while self._num_viewers and not self._is_over:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, *, is_last: bool = False) -> None:
        async with self._looking:
            parts = await asyncio.to_thread(self._told, is_last)
            if parts is not None:
                await self._publish(parts)

    def _told(self, is_last: bool) -> Parts | None:
        try:
            return self._teller.look(is_last=is_last)
        except Exception:  # a viewer that stands still would be worse than an old picture
            _log.exception("What has been recorded could not be shown; it is tried again.")
            return None

    async def _publish(self, parts: Parts) -> None:
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
