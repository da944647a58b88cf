"""Compiled gradients against torch in float32 and float64, over random and extreme chains."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from extreme_chains import EXTREMES
from hypothesis import assume, given
from hypothesis import strategies as st
from native_bench import (
    DIGITS_LIKE,
    LEVELS,
    chain,
    chains,
    check_gradients_of,
    digits_like,
    gradients,
    image_pool,
    margin,
    tiled_chains,
    torch_gradients,
)
from networks import few
from torch import nn

from coterie.models.architectures import ARCHITECTURES

NEAR = 1e-5
"""Nearer than this to a kink or a tie, rounding decides; there is no right answer to compare."""


@given(chains(), st.integers(1, 20), st.integers(0, 2**16))
@few(120)
def test_gradients_of_any_chain(drawn, batch, seed):
    module, shape, num_classes = drawn
    pool = image_pool(batch, shape, num_classes, seed=seed)
    assume(margin(module, pool) > NEAR)
    check_gradients_of(module, pool, regression=num_classes is None)


@given(tiled_chains(), st.integers(1, 11), st.sampled_from(LEVELS), st.integers(0, 2**16))
@few(60)
def test_gradients_of_tiled_convolutions(drawn, batch, level, seed):
    module, shape, num_classes = drawn
    pool = image_pool(batch, shape, num_classes, seed=seed)
    assume(margin(module, pool) > NEAR)
    check_gradients_of(module, pool, level=level)


@given(chains(), st.integers(1, 20), st.sampled_from(LEVELS[:-1] or LEVELS))
@few(40)
def test_gradients_of_any_chain_for_older_processors(drawn, batch, level):
    module, shape, num_classes = drawn
    pool = image_pool(batch, shape, num_classes)
    assume(margin(module, pool) > NEAR)
    check_gradients_of(module, pool, regression=num_classes is None, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("batch", [1, 8, 11])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_shapes(name, batch, level):
    shape, layers = EXTREMES[name]
    module = chain(*layers)
    num_classes = module(torch.zeros(1, *shape)).shape[1]
    # Of the first few draws one keeps clear of kinks and ties.
    pools = (image_pool(batch, shape, num_classes, seed=seed) for seed in range(20))
    pool = next(pool for pool in pools if margin(module, pool) > NEAR)
    check_gradients_of(module, pool, level=level)
    if name != "one class":
        assert np.abs(gradients(module, pool, level=level)).max() > 1e-3


@pytest.mark.parametrize("batch", [1, 7, 8, 9, 16, 17])
def test_batches_of_every_size(batch):
    """Groups of eight, the last of which may be smaller."""
    pools = (image_pool(batch, DIGITS_LIKE, 4, seed=seed) for seed in range(20))
    check_gradients_of(
        digits_like(), next(pool for pool in pools if margin(digits_like(), pool) > NEAR)
    )


@pytest.mark.parametrize("name", ["cifar-cnn", "fashion-cnn", "pens-cnn", "digits-cnn", "linear"])
def test_gradients_of_the_architectures(name):
    """Real sizes have too many values to keep clear of ties, so the tolerance is wider."""
    known = ARCHITECTURES[name]
    torch.manual_seed(0)  # weights of some draws have ties
    module, regression = known.build(), known.task == "regression"
    pool = image_pool(11, known.input_shape, None if regression else known.default_outputs)
    ours = gradients(module, pool, regression=regression)
    theirs = torch_gradients(module, pool, regression=regression)
    assert np.linalg.norm(ours - theirs) <= 1e-3 * np.linalg.norm(theirs)


def test_the_comparison_notices_a_wrong_gradient():
    """One weight off by a hundredth of the gradient: otherwise nothing above could fail."""
    module = chain(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    pool = image_pool(5, (6,), 3)
    right = torch_gradients(module, pool)
    check_gradients_of(module, pool)
    with pytest.MonkeyPatch.context() as patch:
        wrong = right.copy()
        wrong[7] += 0.01 * np.linalg.norm(right)
        patch.setattr("native_bench.gradients", lambda *_, **__: wrong)
        with pytest.raises(AssertionError, match=r"0\.weight"):
            check_gradients_of(module, pool)


@pytest.mark.parametrize("layer", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1)])
def test_of_equal_values_in_a_window_the_first_gets_the_gradient(layer):
    """As with torch, fused or not. Small whole numbers tie exactly, and of different inputs."""
    module = chain(nn.Conv2d(2, 1, 1, bias=False), layer, nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        module[0].weight.fill_(1)
    pool = image_pool(9, (2, 8, 8), 2)
    pool.inputs[:] = np.rint(pool.inputs)
    np.testing.assert_allclose(
        gradients(module, pool), torch_gradients(module, pool), rtol=1e-4, atol=1e-6
    )
