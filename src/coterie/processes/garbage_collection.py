"""Postpones the slow part of Python's garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = 2**31 - 1


@contextmanager
def postpone_full_collections() -> Iterator[None]:
    """Postpone collections of old objects to the end of a block; young ones are collected.

    A round of many peers makes millions of objects that live to its end. Meanwhile each full
    collection visits all objects of all peers, and finds nothing.
    """
    young, middle, full = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, full)
