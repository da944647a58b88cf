"""Processors with vectors of 16 floats compute the same bits as those with vectors of eight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from native_bench import NativeBench, chain, image_pool
from torch import nn
from wider_networks import NETWORKS, build, pool_for

from coterie.data.pools import Pool
from coterie.learning.native.library import find_library
from coterie.models.architectures import architecture

PAPERS = ("cifar-cnn", "cifar-cnn-dropout", "fashion-cnn", "pens-cnn", "digits-cnn", "mlp")
OPTIMIZERS = {
    "adam": {"learning_rate": 1e-3},
    "adam with decay": {"weight_decay": 0.1, "batch_size": 13},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "sgd": {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.01},
}


def odd() -> nn.Module:
    """Return layers of which hardly any width is a multiple of eight."""
    return chain(
        nn.Conv2d(3, 13, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(13, 11, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(11, 7, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(7 * 5 * 5, 39),
        nn.ReLU(),
        nn.Linear(39, 5),
    )


def check(make: Callable[[], nn.Module], pool: Pool, **settings: object) -> None:
    """Train and evaluate with both kinds of vectors, and compare all bits."""
    found = find_library()
    had = found.widen(0)
    results = []
    try:
        for on in (0, 1):
            found.widen(on)
            bench = NativeBench(make, pool, **settings)
            loss = bench.train(epochs=2)
            results.append((loss, bench.models[0].tobytes(), bench.evaluate().losses.tobytes()))
            assert np.isfinite(loss)
            assert (bench.models[0] != bench.start).any()
    finally:
        found.widen(had)
    assert results[0] == results[1]


@pytest.fixture(autouse=True)
def _needs_wide_vectors() -> None:
    found = find_library()
    had = found.widen(1)
    has = found.widen(had)
    if not has:
        pytest.skip("this processor has no vectors of 16 floats")


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_networks(name):
    """With a last batch that does not fill a vector."""
    model = architecture(name)
    check(model.build, image_pool(21, model.input_shape, model.default_outputs))


@pytest.mark.parametrize("name", NETWORKS)
def test_wider_networks(name):
    check(lambda: build(name), pool_for(name, 20), batch_size=10)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_odd_widths_with_every_optimiser(optimizer):
    check(odd, image_pool(21, (3, 28, 28), 5), **OPTIMIZERS[optimizer])
