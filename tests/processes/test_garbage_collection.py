"""Full collections wait for the end of a block; young objects are still collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from coterie.processes.garbage_collection import postpone_full_collections


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def few_old_objects() -> Iterator[None]:
    """Full collections start when there are many new objects for the number of old ones."""
    gc.freeze()
    yield
    gc.unfreeze()


def full_collections_of_many_objects() -> int:
    before = gc.get_stats()[2]["collections"]
    kept = [[] for _ in range(200_000)]
    assert len(kept) == 200_000
    return gc.get_stats()[2]["collections"] - before


def test_full_collections_wait_and_young_garbage_does_not():
    with postpone_full_collections():
        garbage = weakref.ref(Cycle())
        assert full_collections_of_many_objects() == 0
        assert garbage() is None
    assert full_collections_of_many_objects() > 0


def test_errors_do_not_postpone_them_for_ever():
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), postpone_full_collections():
        raise RuntimeError
    assert gc.get_threshold() == before
