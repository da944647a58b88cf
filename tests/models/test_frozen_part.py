"""The frozen part of a module: which tensors belong to it, its digest, and how it is shared."""

import numpy as np
import pytest
import torch
from torch import nn

from coterie.errors import ConfigError, TrainingError
from coterie.models.frozen_part import FrozenPart, frozen_norms
from coterie.models.layout import Layout
from coterie.models.shared_builder import SharedBuilder
from coterie.models.vector import FlatModule, vector_of


class Positions(nn.Module):
    """A constant without parameters, as transformers add to their inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, inputs):
        return inputs + self.table


def with_backbone():
    backbone = nn.Sequential(nn.Linear(4, 4), Positions(), nn.BatchNorm1d(4))
    backbone.requires_grad_(False)
    return nn.Sequential(backbone, nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False))


def test_parameters_without_gradients_are_frozen_with_the_buffers_beside_and_inside():
    assert sorted(FrozenPart.of(with_backbone()).tensors) == [
        "0.0.bias",
        "0.0.weight",
        "0.1.table",
        "0.2.bias",
        "0.2.num_batches_tracked",
        "0.2.running_mean",
        "0.2.running_var",
        "0.2.weight",
    ]
    names = [entry.name for entry in Layout.of(with_backbone()).entries]
    assert names == ["1.weight", "1.bias", "2.running_mean", "2.running_var"]


def test_a_module_that_is_trained_as_a_whole_has_no_frozen_part():
    part = FrozenPart.of(nn.Sequential(Positions(), nn.Linear(4, 4), nn.BatchNorm1d(4)))
    assert (part.is_empty, part.num_bytes, part.digest) == (True, 0, "")


def test_buffers_stay_with_a_module_of_which_one_parameter_is_trained():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    module[0].requires_grad_(False)
    module[1].weight.requires_grad_(False)
    assert sorted(FrozenPart.of(module).tensors) == ["0.bias", "0.weight", "1.weight"]


def test_constants_in_a_module_that_is_partly_trained_travel():
    module = nn.Sequential(nn.Linear(4, 4), Positions(), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    assert "1.table" in [entry.name for entry in Layout.of(module).entries]


def test_tied_frozen_tensors_are_one_and_shared_at_both_places():
    def build():
        module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
        module[1].weight = module[0].weight
        module[0].requires_grad_(False)
        return module

    builder = SharedBuilder(build, 0)
    assert sorted(builder.frozen.tensors) == ["0.bias", "0.weight"]
    module = builder()
    assert module[1].weight is module[0].weight
    assert module[0].weight.data_ptr() == builder.frozen.tensors["0.weight"].data_ptr()


def test_all_modules_of_a_run_share_one_frozen_part_of_the_seed():
    one, other = SharedBuilder(with_backbone, 3), SharedBuilder(with_backbone, 3)
    assert one.frozen.digest == other.frozen.digest
    assert one.frozen.digest != SharedBuilder(with_backbone, 4).frozen.digest
    modules = [one(), one()]
    for name in ("weight", "running_mean"):
        places = {getattr(module[0][2], name).data_ptr() for module in modules}
        assert places == {one.frozen.tensors[f"0.2.{name}"].data_ptr()}
    assert modules[0][1].weight.data_ptr() != modules[1][1].weight.data_ptr()


def test_initial_vectors_are_those_of_keyed_builds():
    builder = SharedBuilder(with_backbone, 3)
    np.testing.assert_array_equal(builder.initial_vector(), builder.initial_vector(None))
    assert not np.array_equal(builder.initial_vector(0), builder.initial_vector(1))
    np.testing.assert_array_equal(builder.initial_vector(0), builder.initial_vector(0))
    assert builder.initial_vector().shape == (builder.layout.size,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool])
def test_frozen_tensors_may_have_any_type(dtype):
    def build():
        module = nn.Linear(2, 2)
        module.kept = nn.Parameter(torch.ones(3, dtype=dtype), requires_grad=False)
        return module

    builder = SharedBuilder(build, 0)
    assert builder().kept.data_ptr() == builder.frozen.tensors["kept"].data_ptr()
    assert len(builder.frozen.digest) == 64
    assert Layout.of(build()).size == 6


def frozen_linear(name="weight", value=1.0, shape=(2, 2), dtype=torch.float32):
    module = nn.Linear(2, 2)
    module.register_parameter(
        name, nn.Parameter(torch.full(shape, value, dtype=dtype), requires_grad=False)
    )
    return FrozenPart.of(module)


def test_the_digest_depends_on_names_shapes_types_and_values():
    different = [
        frozen_linear(),
        frozen_linear(name="other"),
        frozen_linear(value=1.5),
        frozen_linear(shape=(4, 1)),
        frozen_linear(dtype=torch.float64),
        frozen_linear(value=0.0),
        frozen_linear(value=0.0, dtype=torch.int32),
    ]
    assert len({part.digest for part in different}) == len(different)
    assert frozen_linear().digest == frozen_linear().digest


@pytest.mark.parametrize(
    ("later", "name"),
    [
        (lambda module: module[0].weight.requires_grad_(True), "0.weight"),
        (lambda module: module[1].weight.requires_grad_(False), "1.weight"),
        (lambda module: module.__setitem__(0, nn.Linear(4, 5).requires_grad_(False)), "0.weight"),
    ],
)
def test_builds_that_differ_are_refused(later, name):
    calls = []

    def build():
        module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        module[0].requires_grad_(False)
        if calls:
            later(module)
        calls.append(module)
        return module

    builder = SharedBuilder(build, 0)
    with pytest.raises(ConfigError, match=f"'{name}'"):
        builder()


def test_frozen_statistics_are_used_and_not_changed_in_training():
    module = with_backbone()
    flat = FlatModule(module)
    assert frozen_norms(module) == [module[0][2]]
    before = module[0][2].running_mean.clone()
    for _ in range(2):
        assert flat.training_module()[2].training
        module(torch.randn(5, 4))
    torch.testing.assert_close(module[0][2].running_mean, before, rtol=0, atol=0)
    assert int(module[0][2].num_batches_tracked) == 0
    assert int(module[2].num_batches_tracked) == 2


def test_loading_a_vector_leaves_the_frozen_part_as_it_is():
    module = with_backbone()
    kept = module[0][0].weight.clone()
    flat = FlatModule(module)
    flat.load(np.full(flat.layout.size, 0.5, np.float32))
    assert torch.equal(module[0][0].weight, kept)
    assert np.array_equal(vector_of(module), np.full(flat.layout.size, 0.5, np.float32))


def test_a_module_that_changes_its_frozen_buffers_is_refused():
    class Counting(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, inputs):
            self.calls += 1
            return super().forward(inputs)

    module = nn.Sequential(Counting().requires_grad_(False), nn.Linear(4, 2))
    flat = FlatModule(module)
    module(torch.zeros(1, 4))
    with pytest.raises(TrainingError, match=r"'0\.calls'"):
        flat.store(np.zeros(flat.layout.size, np.float32))
