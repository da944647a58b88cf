"""Counters of network traffic, by peer."""

from __future__ import annotations

from collections import Counter

from coterie.peer.types import PeerKey


class Traffic:
    """Counters for metrics and records; only peers that were once trusted have entries."""

    def __init__(self) -> None:
        self.bytes_received: Counter[PeerKey] = Counter()
        """Bytes of models, as sent."""
        self.bytes_sent: Counter[PeerKey] = Counter()
        self.calls: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls made by this peer."""
        self.failures: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls made by this peer that failed."""
        self.served: Counter[tuple[PeerKey, str]] = Counter()
        """By peer and method: calls that this peer answered or refused."""
