"""Types that all parts of a peer share."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the current time in seconds."""
PeerKey = str
"""A peer's id in hex: the SHA-256 of its public key."""
