"""Small networks that fit the shape of any data, and models of users' own files."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from coterie.errors import ConfigError, suggest
from coterie.models.architectures import ARCHITECTURES, Architecture
from coterie.models.layout import Layout

Shape = tuple[int, ...]
HIDDEN = (64, 64)
"""The widths of hidden layers."""
SMALLEST_MAP = 4
"""Convolutions end before an image is smaller than this."""
EMBEDDED = 8
"""Values per token."""
CHANNELS = (16, 32, 32, 64, 64)
COLOURS = (1, 2, 3, 4)
"""Numbers of channels that an image can have."""
OUTPUTS = 10
"""Outputs that a model's number of parameters is for."""

OWN_MODELS: dict[str, Callable[..., nn.Module]] = {}
"""Functions of users' own files by name, FILE.py:FUNCTION; see `experiments/user_models.py`."""


def _small_mlp(shape: Shape, outputs: int) -> nn.Module:
    """Return two hidden layers of 64 with ReLU."""
    widths = [math.prod(shape), *HIDDEN]
    layers: list[nn.Module] = [] if len(shape) == 1 else [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def _small_cnn(shape: Shape, outputs: int) -> nn.Module:
    """Return 3×3 convolutions, each with ReLU and 2×2 max-pooling, and two linear layers."""
    before, height, width = shape
    layers: list[nn.Module] = []
    for channels in CHANNELS:
        if min(height, width) < SMALLEST_MAP:
            break
        layers += [nn.Conv2d(before, channels, 3), nn.ReLU(), nn.MaxPool2d(2)]
        before, height, width = channels, (height - 2) // 2, (width - 2) // 2
    layers += [nn.Flatten(), nn.Linear(before * height * width, HIDDEN[0]), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN[0], outputs))


def _text_mlp(shape: Shape, outputs: int) -> nn.Module:
    """Return an embedding of as many tokens as there are outputs, and a hidden layer."""
    return nn.Sequential(
        nn.Embedding(outputs, EMBEDDED),
        nn.Flatten(),
        nn.Linear(math.prod(shape) * EMBEDDED, HIDDEN[0]),
        nn.ReLU(),
        nn.Linear(HIDDEN[0], outputs),
    )


FITTING: dict[str, tuple[Callable[[Shape, int], nn.Module], str]] = {
    "small-mlp": (_small_mlp, "two hidden layers of 64 for samples of any size"),
    "small-cnn": (_small_cnn, "3×3 convolutions and two linear layers for images of any size"),
    "text-mlp": (_text_mlp, "an embedding and a hidden layer of 64, to predict the next token"),
}
"""Networks that are built for the shape of the samples, and what they are."""


def default_model(shape: Shape) -> str:
    """Return the name of the network for samples of a shape: images, or anything else."""
    is_image = len(shape) == 3 and shape[0] in COLOURS and min(shape[1:]) >= SMALLEST_MAP
    return "small-cnn" if is_image else "small-mlp"


def find_architecture(name: str, shape: Shape | None = None) -> Architecture:
    """Return a network by name; one that fits the data needs the shape of a sample."""
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    if name in OWN_MODELS:
        return _fitted(name, OWN_MODELS[name], shape, "a model of your own", is_own=True)
    if name in FITTING:
        construct, summary = FITTING[name]
        return _fitted(name, construct, shape, summary)
    if ".py:" in name:
        raise ConfigError(
            f"The model {name} is in a file of your own, which is not loaded. On the command line "
            "name it with --model; in Python build the module yourself and use load_into."
        )
    raise ConfigError(f"Unknown architecture '{name}'.{suggest(name, (*ARCHITECTURES, *FITTING))}")


def _fitted(
    name: str,
    construct: Callable[..., nn.Module],
    shape: Shape | None,
    summary: str,
    *,
    is_own: bool = False,
) -> Architecture:
    if shape is None:
        raise ConfigError(
            f"The model '{name}' needs the shape of a sample. Set model.input_shape, such as "
            "[1, 28, 28] or [30]."
        )
    build: Callable[[int], nn.Module]
    build = partial(_build_own, name, construct, shape) if is_own else partial(construct, shape)
    return Architecture(
        name,
        build,
        input_shape=shape,
        default_outputs=OUTPUTS,
        num_parameters=_count_parameters(build),
        task="classification",
        summary=summary,
    )


def _count_parameters(build: Callable[[int], nn.Module]) -> int:
    """Return the size of a network; the weights drawn for it change no later draws."""
    with torch.random.fork_rng(devices=[]):
        return Layout.of(build(OUTPUTS)).size


def _build_own(name: str, function: Callable[..., Any], shape: Shape, outputs: int) -> nn.Module:
    """Call a user's function without arguments, or with (input_shape, num_outputs)."""
    try:
        takes_shape = _accepts(function, shape, outputs)
        module = function(shape, outputs) if takes_shape else function()
    except Exception as error:
        raise ConfigError(
            f"--model {name}: the function failed for samples of shape {shape} and "
            f"{outputs} outputs: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"--model {name}: the function returned a {type(module).__name__}, but must return a "
            "new torch module."
        )
    return module


def _accepts(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function takes these arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True
