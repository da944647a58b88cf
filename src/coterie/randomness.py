"""Random generators, each with a key: (seed, purpose, peer, round).

Every random draw uses one of them. So all strategies see the same data and the same initial models,
a new strategy changes no results, and results do not depend on threads, processes or their order.
"""

from __future__ import annotations

import hashlib

import numpy as np

Key = int | str


def key_bits(seed: int, purpose: str, *key: Key) -> int:
    """Return 128 random bits that depend on all parts of the key."""
    # A numpy integer gives the same key as a Python integer, although their texts differ.
    parts = [part if isinstance(part, str) else int(part) for part in key]
    text = repr((int(seed), purpose, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def generator(seed: int, purpose: str, *key: Key) -> np.random.Generator:
    """Return the generator of a key; equal keys give equal streams."""
    return np.random.Generator(np.random.Philox(key=key_bits(seed, purpose, *key)))
