"""ResNet-18 has the names, shapes and initial weights of the official one."""

import pytest
import torch

from coterie.models.layout import Layout
from coterie.models.resnet import ResNet18


@pytest.fixture(scope="module")
def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ResNet18(100)


def normalisation(name, width):
    parts = ("weight", "bias", "running_mean", "running_var")
    shapes = {f"{name}.{part}": (width,) for part in parts}
    return shapes | {f"{name}.num_batches_tracked": ()}


def block(name, inputs, outputs):
    shapes = {f"{name}.conv1.weight": (outputs, inputs, 3, 3)}
    shapes |= normalisation(f"{name}.bn1", outputs)
    shapes |= {f"{name}.conv2.weight": (outputs, outputs, 3, 3)}
    shapes |= normalisation(f"{name}.bn2", outputs)
    if inputs != outputs:
        shapes |= {f"{name}.downsample.0.weight": (outputs, inputs, 1, 1)}
        shapes |= normalisation(f"{name}.downsample.1", outputs)
    return shapes


def official_shapes(outputs):
    shapes = {"conv1.weight": (64, 3, 7, 7)} | normalisation("bn1", 64)
    inputs = 64
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        shapes |= block(f"layer{stage}.0", inputs, width)
        shapes |= block(f"layer{stage}.1", width, width)
        inputs = width
    return shapes | {"fc.weight": (outputs, 512), "fc.bias": (outputs,)}


def test_names_and_shapes_are_the_official_ones(network):
    found = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert found == official_shapes(100)
    assert list(found) == list(official_shapes(100))
    assert len(found) == 122


def test_sizes_are_the_published_ones(network):
    layout = Layout.of(network)
    assert layout.num_parameters == 11_227_812
    assert layout.size == 11_227_812 + 9_600
    assert (layout.num_layers, layout.classifier_depth) == (41, 1)


def test_small_and_large_images_give_one_score_per_class(network):
    network.eval()
    with torch.no_grad():
        for size in (32, 96):
            scores = network(torch.zeros(2, 3, size, size))
            assert scores.shape == (2, 100)
            assert torch.isfinite(scores).all()


def test_the_stem_and_each_later_stage_halve_the_image(network):
    sizes = []
    hooks = [
        part.register_forward_hook(lambda _module, _inputs, output: sizes.append(output.shape[1:]))
        for part in (network.conv1, network.maxpool, network.layer1, network.layer2)
    ]
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, 64, 64))
    for hook in hooks:
        hook.remove()
    assert sizes == [(64, 32, 32), (64, 16, 16), (64, 16, 16), (128, 8, 8)]


def test_convolutions_start_with_fan_out_deviation(network):
    for convolution in (network.conv1, network.layer4[1].conv2):
        outputs, _, height, width = convolution.weight.shape
        expected = (2 / (outputs * height * width)) ** 0.5
        assert convolution.weight.std().item() == pytest.approx(expected, rel=0.05)
    assert (network.bn1.weight == 1).all()
    assert (network.layer2[0].downsample[1].bias == 0).all()


def test_the_shortcut_carries_the_input_when_the_convolutions_are_silent(network):
    block = network.layer1[0].eval()
    with torch.no_grad():
        kept = block.bn2.weight.clone()
        block.bn2.weight.zero_()
        images = torch.randn(1, 64, 4, 4, generator=torch.Generator().manual_seed(0))
        assert torch.equal(block(images), images.relu())
        block.bn2.weight.copy_(kept)
