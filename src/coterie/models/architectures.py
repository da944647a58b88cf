"""The catalogue of architectures: the networks with a name in the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from coterie.errors import ConfigError, suggest
from coterie.models.resnet import ResNet18

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Architecture:
    """A named network; `num_parameters` is for `default_outputs` outputs."""

    name: str
    construct: Callable[[int], nn.Module]
    input_shape: tuple[int, ...]
    default_outputs: int
    num_parameters: int
    task: Task
    summary: str

    def build(self, outputs: int | None = None) -> nn.Module:
        """Return a freshly initialised module that maps (N, *input_shape) to (N, outputs)."""
        wanted = self.default_outputs if outputs is None else outputs
        if wanted < 1:
            raise ConfigError(
                f"'{self.name}' cannot have {wanted} outputs. Give at least 1, or none for "
                f"the default of {self.default_outputs}."
            )
        return self.construct(wanted)


def _convolutional(
    channels: tuple[int, ...], kernel: int, widths: tuple[int, ...], stride: int = 1
) -> Callable[[int], nn.Module]:
    """Return a builder of convolutions, each with ReLU and 2×2 max-pooling, and linear layers."""

    def construct(outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, kernel, stride), nn.ReLU(), nn.MaxPool2d(2)]
        layers.append(nn.Flatten())
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    return construct


def _with_dropout(outputs: int) -> nn.Module:
    """Return cifar-cnn with the dropout that FRIENDS describes; its published code has none."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.1)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)),
    )


def _perceptron(outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, outputs)
    )


def _linear(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(10, outputs))


ARCHITECTURES: dict[str, Architecture] = {
    known.name: known
    for known in (
        Architecture(
            "cifar-cnn",
            _convolutional((3, 6, 16), 5, (400, 120, 84)),
            input_shape=(3, 32, 32),
            default_outputs=10,
            num_parameters=62_006,
            task="classification",
            summary="two 5×5 convolutions and three linear layers for 32×32 colour images",
        ),
        Architecture(
            "cifar-cnn-dropout",
            _with_dropout,
            input_shape=(3, 32, 32),
            default_outputs=10,
            num_parameters=62_006,
            task="classification",
            summary="cifar-cnn with dropout after the second and the third layer",
        ),
        Architecture(
            "fashion-cnn",
            _convolutional((1, 16, 32), 3, (800, 64)),
            input_shape=(1, 28, 28),
            default_outputs=10,
            num_parameters=56_714,
            task="classification",
            summary="two 3×3 convolutions and two linear layers for 28×28 grey images",
        ),
        Architecture(
            "pens-cnn",
            _convolutional((3, 32, 64, 64), 3, (256, 64)),
            input_shape=(3, 32, 32),
            default_outputs=10,
            num_parameters=73_418,
            task="classification",
            summary="three 3×3 convolutions and two linear layers for 32×32 colour images",
        ),
        Architecture(
            "pacs-cnn",
            _convolutional((3, 6, 16), 5, (400, 120, 84), stride=3),
            input_shape=(3, 227, 227),
            default_outputs=7,
            num_parameters=61_751,
            task="classification",
            summary="two strided 5×5 convolutions and three linear layers for 227×227 images",
        ),
        Architecture(
            "digits-cnn",
            _convolutional((1, 16), 3, (144, 32)),
            input_shape=(1, 8, 8),
            default_outputs=10,
            num_parameters=5_130,
            task="classification",
            summary="one 3×3 convolution and two linear layers for 8×8 grey images",
        ),
        Architecture(
            "mlp",
            _perceptron,
            input_shape=(1, 28, 28),
            default_outputs=20,
            num_parameters=412_180,
            task="classification",
            summary="two linear layers with dropout for 28×28 grey images",
        ),
        Architecture(
            "linear",
            _linear,
            input_shape=(10,),
            default_outputs=1,
            num_parameters=11,
            task="regression",
            summary="linear regression on 10 features",
        ),
        Architecture(
            "resnet-18",
            ResNet18,
            input_shape=(3, 32, 32),
            default_outputs=100,
            num_parameters=11_227_812,
            task="classification",
            summary="the standard ImageNet ResNet-18 for colour images of any size",
        ),
    )
}


def architecture(name: str) -> Architecture:
    """Return the architecture of that name."""
    if name not in ARCHITECTURES:
        raise ConfigError(f"Unknown architecture '{name}'.{suggest(name, ARCHITECTURES)}")
    return ARCHITECTURES[name]


def check_fits(architecture: Architecture, input_shape: tuple[int, ...]) -> None:
    """Raise a ConfigError unless the network accepts samples of `input_shape`."""
    if input_shape == architecture.input_shape:
        return
    batch = 2
    try:
        # Not on the meta device: its first use takes longer than any of these networks.
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            outputs = architecture.build().eval()(torch.zeros(batch, *input_shape)).shape
    except (RuntimeError, ValueError):
        outputs = None
    if outputs != (batch, architecture.default_outputs):
        raise ConfigError(
            f"'{architecture.name}' cannot take samples of shape {_by(input_shape)}; it expects "
            f"{_by(architecture.input_shape)}. Resize the data or choose another architecture."
        )


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(str(length) for length in shape) or "()"
