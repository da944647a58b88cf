"""The layout puts every parameter and float buffer at one place of the vector."""

import hashlib

import pytest
import torch
from torch import nn

from coterie.errors import ConfigError
from coterie.models.layout import Layout


def normalised_network():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )


class WithToken(nn.Module):
    """A container that owns a parameter of its own, as a vision transformer does."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(5))
        self.body = nn.Linear(5, 4)
        self.head = nn.Linear(4, 2)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Embedding(7, 3)
        self.decode = nn.Linear(3, 7)
        self.decode.weight = self.encode.weight


def test_entries_follow_each_other_by_layer_with_buffers_behind_their_parameters():
    layout = Layout.of(normalised_network())
    assert [(entry.name, entry.layer, entry.trainable) for entry in layout.entries] == [
        ("0.weight", 0, True),
        ("0.bias", 0, True),
        ("1.weight", 1, True),
        ("1.bias", 1, True),
        ("1.running_mean", 1, False),
        ("1.running_var", 1, False),
        ("4.weight", 2, True),
        ("4.bias", 2, True),
    ]
    stops = [0] + [entry.stop for entry in layout.entries]
    assert [entry.start for entry in layout.entries] == stops[:-1]
    assert stops == [0, 18, 20, 22, 24, 26, 28, 52, 55]
    assert layout.entries[0].shape == (2, 1, 3, 3)


def test_sizes_count_buffers_only_where_they_travel():
    layout = Layout.of(normalised_network())
    assert (layout.size, layout.num_parameters, layout.num_layers) == (55, 51, 3)
    assert layout.num_bytes == 220


def test_last_layers_are_contiguous_slices_of_the_vector():
    layout = Layout.of(normalised_network())
    assert layout.last_layers(1) == (slice(28, 55),)
    assert layout.last_layers(2) == (slice(20, 55),)
    assert layout.last_layers(3) == layout.last_layers(None) == (slice(0, 55),)


def test_trainable_slices_leave_buffers_out():
    layout = Layout.of(normalised_network())
    assert layout.trainable_slices() == (slice(0, 24), slice(28, 55))
    assert layout.trainable_slices(2) == (slice(20, 24), slice(28, 55))
    assert layout.trainable_slices(1) == (slice(28, 55),)


@pytest.mark.parametrize("depth", [-1, 0, 4])
def test_an_impossible_depth_is_refused(depth):
    with pytest.raises(ConfigError, match="from 1 to 3"):
        Layout.of(normalised_network()).last_layers(depth)


def test_classifier_is_the_trailing_run_of_linear_layers():
    head = [nn.Linear(4, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2)]
    assert Layout.of(nn.Sequential(nn.Conv1d(1, 1, 1), *head)).classifier_depth == 2
    assert Layout.of(nn.Sequential(*head, nn.BatchNorm1d(2))).classifier_depth == 1
    assert Layout.of(nn.Sequential(*head)).classifier_depth == 2
    assert Layout.of(nn.Linear(2, 2)).classifier_depth == 1


def test_parameters_of_a_container_are_a_layer_of_their_own():
    layout = Layout.of(WithToken())
    assert [(entry.name, entry.layer) for entry in layout.entries] == [
        ("token", 0),
        ("body.weight", 1),
        ("body.bias", 1),
        ("head.weight", 2),
        ("head.bias", 2),
    ]
    assert (layout.num_layers, layout.classifier_depth) == (3, 2)


def test_tied_parameters_appear_once():
    layout = Layout.of(Tied())
    assert [entry.name for entry in layout.entries] == ["encode.weight", "decode.bias"]
    assert layout.size == 28


def test_buffers_without_parameters_travel_with_a_neighbouring_layer():
    plain = nn.BatchNorm1d(2, affine=False)
    layout = Layout.of(nn.Sequential(plain, nn.Linear(2, 1), nn.BatchNorm1d(1, affine=False)))
    assert layout.num_layers == 1
    assert layout.last_layers(1) == (slice(0, layout.size),)
    assert layout.trainable_slices() == (slice(0, 3),)


def test_frozen_parameters_have_no_place_in_the_vector():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    module[0].requires_grad_(False)
    module[1].bias.requires_grad_(False)
    layout = Layout.of(module)
    assert [(entry.name, entry.layer) for entry in layout.entries] == [("1.weight", 0)]
    assert (layout.size, layout.num_parameters, layout.num_layers) == (6, 6, 1)
    assert layout.last_layers(1) == layout.trainable_slices() == (slice(0, 6),)


def test_a_model_in_which_nothing_is_trained_is_refused():
    with pytest.raises(ConfigError, match="requires_grad = False"):
        Layout.of(nn.Linear(2, 2).requires_grad_(False))


def test_the_classifier_ends_at_a_frozen_layer():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].requires_grad_(False)
    assert (Layout.of(module).num_layers, Layout.of(module).classifier_depth) == (3, 2)


def test_fingerprint_depends_on_names_shapes_and_kinds_only():
    fingerprint = Layout.of(normalised_network()).fingerprint
    assert fingerprint == Layout.of(normalised_network()).fingerprint
    assert len(fingerprint) == 64
    frozen = nn.Linear(2, 3)
    frozen.bias.requires_grad_(False)
    modules = [nn.Linear(2, 3), nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 3)), frozen]
    assert len({Layout.of(module).fingerprint for module in modules}) == 4


def test_the_fingerprint_of_a_known_layout_does_not_change_between_versions():
    rows = b'[["weight", [3, 2], true], ["bias", [3], true]]'
    assert Layout.of(nn.Linear(2, 3)).fingerprint == hashlib.sha256(rows).hexdigest()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64])
def test_other_precisions_are_refused(dtype):
    module = nn.Linear(2, 2)
    module.bias = nn.Parameter(torch.zeros(2, dtype=dtype))
    with pytest.raises(ConfigError, match=r"'bias' is .*\.float\(\)"):
        Layout.of(module)


def test_buffers_of_other_precision_are_refused():
    module = nn.Linear(2, 2)
    module.register_buffer("scale", torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ConfigError, match="'scale' is float64"):
        Layout.of(module)


@pytest.mark.parametrize("module", [nn.ReLU(), nn.BatchNorm1d(3, affine=False)])
def test_a_module_without_parameters_is_refused(module):
    with pytest.raises(ConfigError, match="no parameters"):
        Layout.of(module)
