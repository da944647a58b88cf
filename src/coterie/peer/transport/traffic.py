"""Counters of what went over the network, by peer."""

from __future__ import annotations

from collections import Counter

from coterie.peer.types import PeerKey


class Traffic:
    """Plain counters for metrics and records; only peers that were once trusted have entries."""

    def __init__(self) -> None:
        self.bytes_received: Counter[PeerKey] = Counter()
        """Of models, as they travelled."""
        self.bytes_sent: Counter[PeerKey] = Counter()
        self.calls: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls that I made."""
        self.failures: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls that I made and that failed."""
        self.served: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls that I answered, or refused."""
