"""Keyed generators: equal keys, equal streams; every part of the key matters."""

import random
import subprocess
import sys

import numpy as np
import pytest

from coterie.randomness import generator, key_bits

KEY = (7, "batches", 3, 12)
OTHERS = [
    (8, "batches", 3, 12),
    (-7, "batches", 3, 12),
    (7, "batch", 3, 12),
    (7, "Batches", 3, 12),
    (7, "batches", 4, 12),
    (7, "batches", 3, 13),
    (7, "batches", 12, 3),
    (7, "batches", 31, 2),
    (7, "batches", "3", 12),
    (7, "batches", 3),
    (7, "batches"),
    (7, "batches", 3, 12, 0),
    (7, "batches", "3, 12"),
]


def _stream(*key):
    return generator(*key).integers(0, 2**63, 20).tolist()


def test_equal_keys_give_equal_streams():
    assert _stream(*KEY) == _stream(*KEY)
    first, second = generator(*KEY), generator(*KEY)
    first.random(1000)
    assert second.integers(0, 2**63, 20).tolist() == _stream(*KEY)


@pytest.mark.parametrize("other", OTHERS)
def test_every_part_of_the_key_matters(other):
    assert key_bits(*other) != key_bits(*KEY)
    assert not set(_stream(*other)) & set(_stream(*KEY))


def test_numpy_whole_numbers_are_the_same_key():
    assert key_bits(np.int64(7), "batches", np.int64(3), np.int32(12)) == key_bits(*KEY)


def test_bits_are_128_and_well_mixed():
    bits = [key_bits(0, "peer", number) for number in range(2000)]
    assert len(set(bits)) == len(bits)
    assert all(0 <= value < 2**128 for value in bits)
    ones = np.array([[value >> place & 1 for place in range(128)] for value in bits]).mean(axis=0)
    assert ones.min() > 0.44
    assert ones.max() < 0.56


def test_streams_of_neighbouring_keys_look_independent():
    draws = np.array([generator(0, "peer", number).random(200) for number in range(100)])
    correlation = np.corrcoef(draws) - np.eye(100)
    assert np.abs(correlation).max() < 0.4
    assert abs(draws.mean() - 0.5) < 0.01


def test_global_generators_neither_matter_nor_move():
    expected = _stream(*KEY)
    for seed in (0, 1):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
        assert _stream(*KEY) == expected
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_another_process_draws_the_same():
    script = (
        "from coterie.randomness import generator\n"
        f"print(generator(*{KEY!r}).integers(0, 2**63, 20).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == str(_stream(*KEY))
