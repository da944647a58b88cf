"""Arrays that a forked child and its parent both see."""

import multiprocessing
import os

import numpy as np
import psutil
import pytest

from coterie.processes.shared_memory import shared_array


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 4), np.float32),
        ((5,), np.int64),
        ((2, 1, 2, 2), "float64"),
        ((), np.int64),
        ((7,), bool),
        ((3,), np.uint8),
    ],
)
def test_starts_as_writable_zeros(shape, dtype):
    array = shared_array(shape, dtype)
    assert array.shape == shape
    assert array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert not array.any()
    array[...] = 1
    assert array.all()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0, 2)])
def test_may_be_empty(shape):
    array = shared_array(shape, np.float32)
    assert array.shape == shape
    assert array.size == 0


def test_two_arrays_do_not_share_with_each_other():
    first, second = shared_array((1000,), np.int64), shared_array((1000,), np.int64)
    first[:] = 5
    assert not second.any()
    assert not np.shares_memory(first, second)


def test_what_a_child_writes_the_parent_sees():
    shared, own = shared_array((2, 50_000), np.float32), np.zeros((2, 50_000), np.float32)
    child = os.fork()
    if child == 0:
        shared[1], own[1] = 3.5, 3.5
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (shared[1] == 3.5).all()
    assert not shared[0].any()
    assert not own.any(), "ordinary memory is copied on write"


def test_what_the_parent_writes_later_a_child_sees():
    context = multiprocessing.get_context("fork")
    array = shared_array((4,), np.int64)
    written, total = context.Event(), context.Queue()

    def add_up():
        if written.wait(30):
            total.put(int(array.sum()))

    child = context.Process(target=add_up)
    child.start()
    array[:] = [1, 2, 3, 4]
    written.set()
    assert total.get(timeout=30) == 10
    child.join(30)
    assert child.exitcode == 0


def test_memory_is_freed_with_the_array():
    process, gigabyte = psutil.Process(), 2**30
    before = process.memory_info().vms
    array = shared_array((4, gigabyte // 4), np.uint8)
    part = array[1:3, :10]
    assert process.memory_info().vms > before + gigabyte // 2
    del array
    part[:] = 1
    assert process.memory_info().vms > before + gigabyte // 2, "a view keeps it alive"
    del part
    assert process.memory_info().vms < before + gigabyte // 2
