"""Small networks fit the shape of any data, and run in the compiled trainer."""

from __future__ import annotations

import pytest
import torch

from coterie.errors import ConfigError
from coterie.learning.native.translate_module import translate_module
from coterie.models.fitting_models import default_model, find_architecture
from coterie.models.layout import Layout


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((7,), "small-mlp"),
        ((1, 8, 8), "small-cnn"),
        ((3, 32, 32), "small-cnn"),
        ((3, 97, 64), "small-cnn"),
        ((1, 4, 4), "small-cnn"),
        ((1, 2, 9), "small-mlp"),
        ((40, 6), "small-mlp"),
        ((16, 5, 5), "small-mlp"),
    ],
)
def test_a_network_fits_the_shape_of_samples(shape, name):
    assert default_model(shape) == name
    known = find_architecture(name, shape)
    module = known.build(3)
    assert module(torch.zeros(2, *shape)).shape == (2, 3)
    assert Layout.of(known.build()).size == known.num_parameters
    if len(shape) in (1, 3):
        assert translate_module(module, Layout.of(module), shape)


def test_to_look_for_a_network_changes_no_random_number():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    find_architecture("small-cnn", (1, 8, 8))
    assert torch.rand(1) == expected


def test_what_is_missing_or_unknown_is_said():
    with pytest.raises(ConfigError, match=r"model\.input_shape"):
        find_architecture("small-mlp")
    with pytest.raises(ConfigError, match="Did you mean 'small-mlp'"):
        find_architecture("smal-mlp")
    with pytest.raises(ConfigError, match="name it with --model"):
        find_architecture("mine.py:build")
