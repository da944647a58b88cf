"""Every random draw comes from a generator keyed by (seed, purpose, peer, round).

So two strategies see the same data and the same start, adding a strategy changes nobody's results,
and results do not depend on threads, processes or the order in which things happen.
"""

from __future__ import annotations

import hashlib

import numpy as np

Key = int | str


def key_bits(seed: int, purpose: str, *key: Key) -> int:
    """Return 128 well-mixed bits that depend on every part of the key."""
    # A numpy integer is the same key as a plain one, though it is written differently.
    parts = [part if isinstance(part, str) else int(part) for part in key]
    text = repr((int(seed), purpose, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def generator(seed: int, purpose: str, *key: Key) -> np.random.Generator:
    """Return the generator of one purpose; equal keys give equal streams."""
    return np.random.Generator(np.random.Philox(key=key_bits(seed, purpose, *key)))
