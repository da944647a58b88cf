"""A flat module computes, trains and forgets exactly as the module it wraps would."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from coterie.errors import ConfigError
from coterie.models.layout import Layout
from coterie.models.vector import FlatModule, initial_vector, vector_of


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def seeded(build=network, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def batch(seed=0):
    source = torch.Generator().manual_seed(seed)
    images = torch.randn(6, 1, 8, 8, generator=source)
    return images, torch.randint(0, 3, (6,), generator=source)


def gradients(module, seed=0):
    images, labels = batch(seed)
    functional.cross_entropy(module(images), labels).backward()


def test_wrapping_keeps_the_weights_and_the_outputs():
    plain = seeded()
    flat = FlatModule(copy.deepcopy(plain))
    assert flat.flat.shape == (Layout.of(plain).size,)
    np.testing.assert_array_equal(flat.flat.numpy(), vector_of(plain))
    images, _ = batch()
    assert torch.equal(flat.module(images), plain(images))


def test_loading_makes_the_module_compute_with_the_new_weights():
    flat = FlatModule(seeded())
    other = seeded(seed=1)
    vector = vector_of(other)
    vector.flags.writeable = False
    flat.load(vector)
    images, _ = batch()
    assert torch.equal(flat.module.eval()(images), other.eval()(images))
    copied = np.zeros_like(vector)
    flat.store(copied)
    np.testing.assert_array_equal(copied, vector)


def test_rows_of_a_matrix_can_be_loaded_and_stored():
    matrix = np.stack([vector_of(seeded(seed=seed)) for seed in range(3)])
    expected = matrix[[1, 1, 2]]
    flat = FlatModule(network())
    flat.load(matrix[1])
    flat.store(matrix[0])
    np.testing.assert_array_equal(matrix, expected)


def test_backward_accumulates_into_the_flat_gradient():
    plain, flat = seeded(), FlatModule(seeded())
    views = {name: value.grad for name, value in flat.module.named_parameters()}
    for seed in range(3):
        gradients(plain, seed)
        gradients(flat.module, seed)
    wanted = dict(plain.named_parameters())
    for name, parameter in flat.module.named_parameters():
        assert parameter.grad is views[name]
        assert torch.equal(parameter.grad, wanted[name].grad)
    for entry in flat.layout.entries:
        found = flat.flat_grad[entry.start : entry.stop]
        if entry.trainable:
            assert torch.equal(found, wanted[entry.name].grad.reshape(-1))
            # Normalisation takes a constant away again, so the bias before it has no gradient.
            assert found.abs().sum() > 0 or entry.name == "0.bias"
        else:
            assert not found.any()
    flat.flat_grad.zero_()
    assert all(not parameter.grad.any() for parameter in flat.module.parameters())


@pytest.mark.parametrize("fused", [True, False])
def test_one_optimiser_over_the_flat_runs_equals_one_over_the_parameters(fused):
    plain, flat = seeded(), FlatModule(seeded())
    settings = {"lr": 0.01, "weight_decay": 0.1, "fused": fused}
    reference = torch.optim.Adam(plain.parameters(), **settings)
    runs = torch.optim.Adam(flat.trainable_views(), **settings)
    for seed in range(5):
        reference.zero_grad()
        flat.flat_grad.zero_()
        gradients(plain, seed)
        gradients(flat.module, seed)
        reference.step()
        runs.step()
    np.testing.assert_allclose(flat.flat.numpy(), vector_of(plain), rtol=1e-5, atol=1e-7)
    assert not np.array_equal(flat.flat.numpy(), vector_of(seeded()))


def test_one_optimiser_over_the_whole_flat_tensor_works_where_there_are_no_buffers():
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))

    plain, flat = seeded(build), FlatModule(seeded(build))
    flat.flat.grad = flat.flat_grad
    reference = torch.optim.Adam(plain.parameters(), lr=0.01, fused=True)
    whole = torch.optim.Adam([flat.flat], lr=0.01, fused=True)
    for seed in range(5):
        reference.zero_grad()
        flat.flat_grad.zero_()
        gradients(plain, seed)
        gradients(flat.module, seed)
        reference.step()
        whole.step()
    np.testing.assert_allclose(flat.flat.numpy(), vector_of(plain), rtol=1e-5, atol=1e-7)


def test_the_optimiser_does_not_touch_buffers_or_earlier_layers():
    flat = FlatModule(seeded())
    before = flat.flat.clone()
    optimiser = torch.optim.SGD(flat.trainable_views(2), lr=0.1, weight_decay=0.5)
    flat.module.eval()
    gradients(flat.module)
    optimiser.step()
    changed = (flat.flat != before).numpy()
    (head,) = flat.layout.trainable_slices(2)
    assert head == flat.layout.last_layers(2)[0]
    assert not changed[: head.start].any()
    assert changed[head].mean() > 0.9


def test_trainable_slices_are_split_by_buffers():
    flat = FlatModule(network())
    assert flat.layout.trainable_slices() == (slice(0, 48), slice(56, flat.layout.size))


def test_running_statistics_are_part_of_the_vector():
    flat = FlatModule(seeded())
    before = flat.flat.clone()
    with torch.no_grad():
        flat.module.train()(batch()[0])
    changed = np.flatnonzero((flat.flat != before).numpy())
    assert changed.tolist() == list(range(48, 56))


def test_nothing_leaks_from_one_peer_to_the_next():
    flat = FlatModule(seeded())
    start = vector_of(seeded(seed=1))
    flat.module(batch()[0])
    assert flat.module[1].num_batches_tracked == 1
    flat.load(start)
    assert flat.module[1].num_batches_tracked == 0
    np.testing.assert_array_equal(flat.module[1].running_mean.numpy(), np.zeros(4))


class Replacing(nn.Module):
    """Replaces its float buffer instead of updating it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, inputs):
        self.seen = self.seen + len(inputs)
        return self.linear(inputs)


def test_a_replaced_buffer_is_stored_and_does_not_leak():
    flat = FlatModule(Replacing())
    start = vector_of(flat.module)
    flat.module(torch.ones(3, 2))
    stored = np.zeros_like(start)
    flat.store(stored)
    np.testing.assert_array_equal(stored - start, [0, 0, 0, 3])
    flat.module(torch.ones(4, 2))
    flat.load(start)
    flat.module(torch.ones(1, 2))
    flat.store(stored)
    np.testing.assert_array_equal(stored - start, [0, 0, 0, 1])


def test_tied_parameters_stay_tied():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    flat = FlatModule(module)
    flat.load(np.ones(15, np.float32))
    assert flat.module[1].weight is flat.module[0].weight
    assert flat.module(torch.ones(1, 3)).tolist() == [[13.0] * 3]
    flat.module(torch.ones(1, 3)).sum().backward()
    assert (flat.flat_grad[:9] == 3 + 4).all()


@pytest.mark.parametrize("vector", [np.zeros(5, np.float32), np.zeros((1, 6), np.float32)])
def test_a_vector_of_another_model_is_refused(vector):
    flat = FlatModule(nn.Linear(5, 1))
    for action in (flat.load, flat.store):
        with pytest.raises(ConfigError, match=r"needs float32 of shape \(6,\)"):
            action(vector)


def test_a_vector_of_another_precision_is_refused():
    with pytest.raises(ConfigError, match="float64"):
        FlatModule(nn.Linear(5, 1)).load(np.zeros(6))


def test_initial_vectors_depend_on_their_bits_only():
    bits = 2**127 + 5
    first = initial_vector(network, bits)
    torch.rand(3)
    np.testing.assert_array_equal(first, initial_vector(network, bits))
    assert first.dtype == np.float32
    assert first.shape == (Layout.of(network()).size,)
    assert not np.array_equal(first, initial_vector(network, bits + 1))


def test_initial_vectors_leave_the_global_generator_alone():
    state = torch.random.get_rng_state()
    initial_vector(network, 7)
    assert torch.equal(torch.random.get_rng_state(), state)
