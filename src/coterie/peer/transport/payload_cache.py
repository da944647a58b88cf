"""Payloads that others can pull from this peer, by digest; encoded at the first request."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.transport.service_interface import PublishedModel
from coterie.peer.types import PeerKey
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.model import Part
from coterie.peer.wire.payload import Encoding, Payload, encode
from coterie.strategies.requests import Range

MOST_VERSIONS = 3
"""The last two published models, and one that was offered for a score."""
MOST_PAYLOADS = 4
"""Of one version: all peers of one strategy ask for the same one or two."""

MOST_ENCODINGS_PER_PEER = 8
"""Of one version: a peer that asks for ever other parts must not keep this computer busy."""

Kind = tuple[frozenset[Part], Encoding]


@dataclass
class _Version:
    """The payloads of one model."""

    making: OrderedDict[Kind, asyncio.Task[Payload]] = field(default_factory=OrderedDict)
    num_made_for: Counter[PeerKey] = field(default_factory=Counter)


class PayloadCache:
    """The payloads that can be pulled now; older ones are dropped."""

    def __init__(
        self,
        layout: Layout,
        encodings: frozenset[Encoding],
        table_ranges: Mapping[str, Range] | None = None,
    ) -> None:
        self._layout = layout
        self._encodings = encodings
        self._table_ranges = table_ranges or {}
        self._versions: dict[tuple[int, float], _Version] = {}
        self._payloads: dict[bytes, Payload] = {}

    async def manifest(
        self, published: PublishedModel, parts: frozenset[Part], encoding: Encoding, asker: PeerKey
    ) -> wire.Manifest:
        """Offer parts of a model, as float32 if this peer does not use the encoding."""
        kind = (parts, encoding if encoding in self._encodings else Encoding.FLOAT32)
        payload = await self._payload(published, kind, asker)
        return wire.Manifest(
            digest=payload.digest,
            size=payload.size,
            round=published.round,
            age_milliseconds=max(int((time.monotonic() - published.published_at) * 1000), 0),
            num_samples=published.num_samples,
            encoding=int(payload.encoding),  # type: ignore[arg-type]
            parts=sorted(parts),  # type: ignore[arg-type]
        )

    def payload(self, digest: bytes) -> Payload:
        """Return a payload; refuse if it was dropped."""
        if digest not in self._payloads:
            raise Refused(Reason.GONE, "this version is not offered any more")
        return self._payloads[digest]

    async def close(self) -> None:
        """Wait for running encodings."""
        making = [task for version in self._versions.values() for task in version.making.values()]
        await asyncio.gather(*making, return_exceptions=True)

    async def _payload(self, published: PublishedModel, kind: Kind, asker: PeerKey) -> Payload:
        version = self._version(published)
        task = version.making.get(kind)
        if task is None or (task.done() and task.exception() is not None):
            if version.num_made_for[asker] == MOST_ENCODINGS_PER_PEER:
                raise Refused(Reason.QUOTA, "too many different selections of parts of one model")
            version.num_made_for[asker] += 1
            # In a thread, because other calls need answers meanwhile; once for all callers.
            task = asyncio.create_task(
                asyncio.to_thread(encode, published.model, self._layout, *kind, self._table_ranges)
            )
            version.making[kind] = task
        version.making.move_to_end(kind)
        payload = await asyncio.shield(task)  # other calls may wait for it too
        self._keep_few(version)
        return payload

    def _version(self, published: PublishedModel) -> _Version:
        key = (published.round, published.published_at)
        if key not in self._versions:
            self._versions[key] = _Version()
            for oldest in sorted(self._versions)[:-MOST_VERSIONS]:
                del self._versions[oldest]
        return self._versions[key]

    def _keep_few(self, version: _Version) -> None:
        while len(version.making) > MOST_PAYLOADS:
            version.making.popitem(last=False)
        self._payloads = {
            payload.digest: payload for each in self._versions.values() for payload in _made(each)
        }


def _made(version: _Version) -> list[Payload]:
    done = [task for task in version.making.values() if task.done() and not task.cancelled()]
    return [task.result() for task in done if task.exception() is None]
