"""Every named architecture has the size its publication states."""

import pytest
import torch
from torch import nn

from coterie.errors import ConfigError
from coterie.models.architectures import ARCHITECTURES, architecture, check_fits
from coterie.models.layout import Layout

COUNTS = {
    "cifar-cnn": 62_006,
    "fashion-cnn": 56_714,
    "pens-cnn": 73_418,
    "cifar-cnn-dropout": 62_006,
    "pacs-cnn": 61_751,
    "digits-cnn": 5_130,
    "mlp": 412_180,
    "linear": 11,
    "resnet-18": 11_227_812,
}


def test_the_known_architectures_are_these():
    assert {name: known.num_parameters for name, known in ARCHITECTURES.items()} == COUNTS
    assert all(known.name == name and known.summary for name, known in ARCHITECTURES.items())


@pytest.mark.parametrize("name", COUNTS)
def test_built_modules_have_the_stated_size_and_shapes(name):
    known = architecture(name)
    module = known.build(None).eval()
    assert Layout.of(module).num_parameters == COUNTS[name]
    with torch.no_grad():
        outputs = module(torch.zeros(2, *known.input_shape))
    assert outputs.shape == (2, known.default_outputs)


@pytest.mark.parametrize(
    ("name", "outputs", "count"),
    [("cifar-cnn", 2, 61_326), ("fashion-cnn", 20, 57_364), ("mlp", 10, 407_050)],
)
def test_other_numbers_of_outputs_work(name, outputs, count):
    known = architecture(name)
    module = known.build(outputs)
    assert Layout.of(module).num_parameters == count
    assert module(torch.zeros(3, *known.input_shape)).shape == (3, outputs)


@pytest.mark.parametrize("outputs", [0, -1])
def test_impossible_numbers_of_outputs_are_refused(outputs):
    with pytest.raises(ConfigError, match="at least 1"):
        architecture("cifar-cnn").build(outputs)


@pytest.mark.parametrize("name", sorted(COUNTS.keys() - {"resnet-18"}))
def test_small_networks_are_plain_sequences(name):
    module = architecture(name).build(None)
    assert type(module) is nn.Sequential
    assert all(not list(layer.children()) for layer in module)


@pytest.mark.parametrize(
    ("name", "layers", "classifier"),
    [("cifar-cnn", 5, 3), ("fashion-cnn", 4, 2), ("pens-cnn", 5, 2), ("mlp", 2, 2)],
)
def test_layers_and_classifiers_are_counted(name, layers, classifier):
    layout = Layout.of(architecture(name).build(None))
    assert (layout.num_layers, layout.classifier_depth) == (layers, classifier)


def test_dropout_follows_the_activation():
    kinds = [type(layer) for layer in architecture("mlp").build(None)]
    assert kinds == [nn.Flatten, nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]
    assert architecture("mlp").build(None)[3].p == 0.2


def test_tasks_are_stated():
    regressions = [name for name, known in ARCHITECTURES.items() if known.task == "regression"]
    assert regressions == ["linear"]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ConfigError, match="Did you mean 'cifar-cnn'"):
        architecture("cifar_cnn")


@pytest.mark.parametrize("name", COUNTS)
def test_every_architecture_takes_its_own_input(name):
    known = architecture(name)
    check_fits(known, known.input_shape)
    with pytest.raises(ConfigError, match=f"'{name}' cannot take"):
        check_fits(known, (5, *known.input_shape))


@pytest.mark.parametrize(("name", "shape"), [("mlp", (784,)), ("resnet-18", (3, 40, 56))])
def test_other_shapes_that_fit_are_taken(name, shape):
    check_fits(architecture(name), shape)
    assert architecture(name).build(None)(torch.zeros(2, *shape)).shape[0] == 2


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cifar-cnn", (1, 32, 32)),
        ("cifar-cnn", (3, 28, 28)),
        ("cifar-cnn", (3, 2, 2)),
        ("fashion-cnn", (28, 28)),
        ("linear", (3, 10)),
        ("linear", ()),
        ("mlp", (1, 32, 32)),
        ("resnet-18", (1, 28, 28)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name, shape):
    with pytest.raises(ConfigError, match="it expects"):
        check_fits(architecture(name), shape)


def test_checking_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    check_fits(architecture("mlp"), (28, 28))
    assert torch.equal(torch.random.get_rng_state(), state)
