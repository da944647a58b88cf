"""Sizes that cannot be are refused before any memory is touched, and large ones do not overflow."""

from __future__ import annotations

import numpy as np
import pytest
from extreme_chains import HEAD, IMPOSSIBLE
from native_bench import FOUND, chain, gradients, image_pool
from torch import nn

from coterie.learning.native.compiled_network import CompiledNetwork
from coterie.learning.native.library import CONVOLUTION, CROSS_ENTROPY, LINEAR
from coterie.learning.native.step import Step
from coterie.learning.trainer import Unsupported


def create(*steps: Step, shape: tuple[int, ...] = (1, 1, 1), has_classes: bool = True):
    loss = "cross-entropy" if has_classes else "mse"
    CompiledNetwork(FOUND, steps, shape, loss=loss).close()


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_sizes_that_cannot_be_are_refused(name):
    with pytest.raises(Unsupported, match="sizes of its layers do not fit together"):
        create(*IMPOSSIBLE[name])


@pytest.mark.parametrize(
    "shape", [(0, 1, 1), (1, -1, 1), (1, 1, 2**62), (2**20, 2**20, 2**20), (-(2**63), 1, 1), (0,)]
)
def test_shapes_that_cannot_be_are_refused(shape):
    with pytest.raises(Unsupported, match="sizes of its layers do not fit together"):
        create(HEAD, shape=shape)


def test_outputs_that_are_no_scores_are_refused():
    create(Step(CONVOLUTION, 3), shape=(1, 1, 1))
    with pytest.raises(Unsupported):
        create(Step(CONVOLUTION, 3), shape=(1, 2, 1))
    create(Step(LINEAR, 1), has_classes=False)
    operations = (HEAD.operation().__class__ * 1)(HEAD.operation())
    sizes = (FOUND.create.argtypes[2]._type_ * 3)(1, 1, 1)
    for loss in (0, 6, -1):
        assert not FOUND.create(operations, 1, sizes, loss, 8, 0)
    for batch_size in (0, -1, 2**62):
        assert not FOUND.create(operations, 1, sizes, CROSS_ENTROPY, batch_size, 0)
    handle = FOUND.create(operations, 1, sizes, CROSS_ENTROPY, 8, 0)
    assert handle
    FOUND.free(handle)


def test_a_window_larger_than_any_number_of_32_bits_divides_rightly():
    """All but one of its 2³² values are padding."""
    side = 2**16
    module = chain(
        nn.AvgPool2d(side, stride=side, padding=side // 2), nn.Flatten(), nn.Linear(1, 2)
    )
    pool = image_pool(3, (1, 1, 1), 2)
    pool.inputs[:] *= 2.0**32
    np.testing.assert_allclose(
        gradients(module, pool), _gradient_of_scaled(module, pool, 2.0**-32), rtol=1e-5
    )


def _gradient_of_scaled(module, pool, factor):
    """Return the gradient of the last layer alone, on inputs times a factor."""
    pool.inputs[:] *= np.float32(factor)
    return gradients(nn.Sequential(nn.Flatten(), module[2]), pool)
