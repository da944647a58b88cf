"""What the speed of an architecture is made of: work that is really done, and counted right."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import replace

import pytest
import torch

from coterie.benchmarking import model_speed
from coterie.benchmarking.model_speed import (
    MODELS,
    do_multiply_adds,
    measure_model,
    nominal_multiply_adds,
    random_pool,
    torch_evaluation,
    torch_training,
)
from coterie.benchmarking.timing import QUICK
from coterie.learning.native.library import MODULE, Library, find_library
from coterie.models.architectures import ARCHITECTURES, architecture

FOUND = find_library()
compiled = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))


def test_nominal_multiply_adds_are_those_of_the_layers():
    """Each layer three times, forward, for weights and for inputs; the first has no inputs'."""
    first, second = 28 * 28 * 6 * 75, 10 * 10 * 16 * 150
    linear = 400 * 120 + 120 * 84 + 84 * 10
    assert nominal_multiply_adds(architecture("cifar-cnn")) == 2 * first + 3 * (second + linear)
    assert nominal_multiply_adds(architecture("linear")) == 2 * 10


@compiled
@pytest.mark.parametrize("level", ["generic", FOUND.level if isinstance(FOUND, Library) else ""])
def test_multiply_adds_are_really_done(level):
    library = Library(importlib.util.find_spec(MODULE).origin, level)
    assert do_multiply_adds(library, 1000) == 1000 * do_multiply_adds(library, 1)
    value = ctypes.c_float(0.5)
    few = library.multiply_adds(1, ctypes.byref(value))
    num_sums = few // (8 if level == "v3" else 4)
    # Sums begin with 0, 1, 2, …; after one step each is its half and a half.
    assert value.value == pytest.approx((num_sums - 1) / 4 + 0.5)
    value = ctypes.c_float(0.5)
    library.multiply_adds(100, ctypes.byref(value))
    assert value.value == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["digits-cnn", "linear"])
def test_the_plain_loops_train_and_evaluate(name):
    """Fused or not, the same weights come out; evaluation leaves them alone."""
    known = architecture(name)
    pool = random_pool(known, 40)
    inputs, targets = torch.from_numpy(pool.inputs), torch.from_numpy(pool.targets)
    trained = []
    for fused in (None, True):
        torch.manual_seed(7)
        module = known.build()
        before = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        model = replace(known, construct=lambda _, module=module: module)
        assert torch_training(model, inputs, targets, fused=fused)() == 40
        after = torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        # Five steps of Adam, each of about its learning rate.
        assert 1e-3 < (after - before).abs().max() < 6e-3
        assert torch_evaluation(model, inputs, targets, 7)() == 40
        assert torch.equal(torch.nn.utils.parameters_to_vector(module.parameters()), after)
        trained.append(after)
    assert torch.allclose(*trained, atol=1e-6)


@compiled
def test_a_model_that_compiled_code_trains():
    ticks = []
    speed = measure_model("digits-cnn", QUICK, ticks.append)
    assert ticks == ["digits-cnn"] * QUICK.repeats
    assert speed.why_not_native is None
    assert min(speed.train_native, speed.evaluate_native, speed.train_torch_fused) > 0
    assert 0 < speed.share_of_peak < 1
    assert speed.evaluate_torch_batch in (8, 100, QUICK.evaluate_samples)


def test_a_machine_without_compiled_code(monkeypatch):
    monkeypatch.setattr(model_speed, "find_library", lambda: "there is no C compiler")
    small = replace(QUICK, repeats=1, train_samples=8, evaluate_samples=8)
    speed = measure_model("linear", small, lambda _: None)
    assert speed.train_native is speed.evaluate_native is speed.share_of_peak is None
    assert speed.why_not_native == "there is no C compiler"
    assert speed.train_torch > 0


@compiled
def test_all_architectures_of_compiled_code_are_measured():
    assert set(MODELS) == ARCHITECTURES.keys() - {"resnet-18", "cifar-cnn-dropout"}
