"""The compiled trainer beside torch's: benches, data, random chains of layers, gradients."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import strategies as st
from torch import nn
from torch_bench import Bench, Build

from coterie.data.pools import Pool
from coterie.learning.native.compiled_network import CompiledNetwork
from coterie.learning.native.library import MODULE, Library, find_library
from coterie.learning.native.native_trainer import NativeTrainer
from coterie.learning.native.translate_module import translate_module
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import Workspace
from coterie.learning.trainer_choice import make_trainer
from coterie.models.layout import Layout
from coterie.models.vector import vector_of
from coterie.tasks import Task

FOUND = find_library()
if isinstance(FOUND, str):
    pytest.skip(FOUND, allow_module_level=True)
ORDER = ("generic", "v2", "v3")
LEVELS = ORDER[: ORDER.index(FOUND.level) + 1]
"""Those that were compiled and that this processor can run."""


def library(level: str | None = None) -> Library:
    return Library(importlib.util.find_spec(MODULE).origin, level)


class NativeBench(Bench):
    """The same bench with the compiled trainer on it."""

    def __init__(
        self,
        build: Build,
        pools: Sequence[Pool] | Pool,
        *,
        regression: bool = False,
        threads: int = 1,
        level: str | None = None,
        num_models: int = 2,
        **settings: object,
    ) -> None:
        super().__init__(build, pools, regression=regression, **settings)
        self.models = np.stack([self.start] * num_models)
        workspace = Workspace(self.pools, {"current": self.models})
        if level is None:
            self.trainer = make_trainer(
                build,
                TrainingSettings(**{**settings, "trainer": "native"}),
                workspace,
                Task("mse" if regression else "cross-entropy"),
                threads=threads,
                tell=pytest.fail,
            )
        else:
            module, shape = build(), self.pools[0].inputs.shape[1:]
            layout = Layout.of(module)
            self.trainer = NativeTrainer(
                library(level),
                translate_module(module, layout, shape),
                layout,
                self.settings,
                workspace,
                Task("mse" if regression else "cross-entropy"),
                threads=threads,
            )


def image_pool(
    count: int, shape: tuple[int, ...], num_classes: int | None, *, seed: int = 0
) -> Pool:
    """Draw samples of any shape; no number of classes means regression."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((count, *shape), dtype=np.float32)
    if num_classes is None:
        return Pool(inputs, rng.standard_normal(count, dtype=np.float32))
    return Pool(inputs, rng.integers(0, num_classes, count))


def chain(*layers: nn.Module, seed: int = 3) -> nn.Module:
    """Return layers in a row, their weights drawn from the seed."""
    module = nn.Sequential(*layers)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            width = parameter[0].numel() if parameter.ndim > 1 else 4
            drawn = rng.standard_normal(parameter.shape, dtype=np.float32) / np.sqrt(width)
            parameter.copy_(torch.from_numpy(drawn.astype(np.float32)))
    return module


def digits_like(num_classes: int = 4) -> nn.Module:
    """Return a small chain of every kind of operation, for samples of 2 × 9 × 8."""
    return chain(
        nn.Conv2d(2, 5, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 4, (2, 3), bias=False),
        nn.ReLU(),
        nn.AvgPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(4 * 2 * 1, 13),
        nn.ReLU(),
        nn.Linear(13, num_classes),
    )


DIGITS_LIKE = (2, 9, 8)


def gradients(
    module: nn.Module, pool: Pool, *, regression: bool = False, level: str | None = None
) -> np.ndarray:
    """Return the compiled gradient (P,) of the mean loss of a pool."""
    shape = pool.inputs.shape[1:]
    steps = translate_module(module, Layout.of(module), shape)
    loss = "mse" if regression else "cross-entropy"
    network = CompiledNetwork(library(level), steps, shape, loss=loss, batch_size=len(pool.inputs))
    try:
        return network.gradient(vector_of(module), pool.inputs, pool.targets)
    finally:
        network.close()


def torch_gradients(module: nn.Module, pool: Pool, *, regression: bool = False) -> np.ndarray:
    """Return torch's gradient (P,), in the precision of the module."""
    outputs = module(_inputs(module, pool))
    targets = torch.from_numpy(pool.targets)
    loss = (
        F.mse_loss(outputs[:, 0], targets.to(outputs.dtype))
        if regression
        else F.cross_entropy(outputs, targets)
    )
    parts = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([part.reshape(-1) for part in parts]).numpy()


def check_gradients_of(
    module: nn.Module, pool: Pool, *, regression: bool = False, level: str | None = None
) -> None:
    """Our error against float64 is at most a small multiple of torch's own in float32."""
    exact = torch_gradients(copy.deepcopy(module).double(), pool, regression=regression)
    theirs = torch_gradients(module, pool, regression=regression)
    ours = gradients(module, pool, regression=regression, level=level)
    whole = np.linalg.norm(exact)
    for entry in Layout.of(module).entries:
        part = slice(entry.start, entry.stop)
        their_error = np.linalg.norm(theirs[part] - exact[part])
        our_error = np.linalg.norm(ours[part] - exact[part])
        allowed = 8 * their_error + 1e-6 * np.linalg.norm(exact[part]) + 1e-7 * whole
        assert our_error <= allowed, (entry.name, our_error, their_error, np.linalg.norm(exact))


def margin(module: nn.Module, pool: Pool) -> float:
    """Return how near, in float64, a ReLU is to its kink or a pooling window to a tie.

    Exact ties do not count: equal values are equal in every precision, and the first one wins.
    """
    exact = copy.deepcopy(module).double()
    nearest = [np.inf]

    def look(layer: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        apart = _apart(layer, arguments[0])
        apart = apart[torch.isfinite(apart) & (apart > 0)]
        if apart.numel():
            nearest.append(apart.min().item())

    for layer in exact.modules():
        if isinstance(layer, nn.ReLU | nn.MaxPool2d):
            layer.register_forward_pre_hook(look)
    with torch.no_grad():
        exact(_inputs(exact, pool))
    return min(nearest)


def _inputs(module: nn.Module, pool: Pool) -> torch.Tensor:
    return torch.from_numpy(pool.inputs).to(next(module.parameters()).dtype)


def _apart(layer: nn.Module, values: torch.Tensor) -> torch.Tensor:
    if isinstance(layer, nn.ReLU):
        return values.abs()
    (high, wide), (down, right), (above, left) = (
        (size, size) if isinstance(size, int) else size
        for size in (layer.kernel_size, layer.stride, layer.padding)
    )
    if high * wide == 1:
        return torch.empty(0)
    padded = F.pad(values, (left, left, above, above), value=-np.inf)
    windows = padded.unfold(2, high, down).unfold(3, wide, right).flatten(4)
    best = windows.topk(2).values
    return best[..., 0] - best[..., 1]


def _pair(draw: st.DrawFn, low: int, high: tuple[int, int]) -> tuple[int, int]:
    return draw(st.integers(low, max(low, high[0]))), draw(st.integers(low, max(low, high[1])))


@st.composite
def chains(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...], int | None]:
    """Draw a chain of layers, the shape of its samples and its classes (None: regression)."""
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    channels, sides = shape[0], shape[1:]
    layers: list[nn.Module] = [nn.ReLU()] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 4))):
        layer, channels, sides = _image_layer(draw, channels, sides)
        layers.append(layer)
        layers += draw(st.sampled_from([[], [nn.ReLU()], [nn.ReLU()], [nn.Dropout(0.0)]]))
    layers.append(nn.Flatten())
    width = channels * sides[0] * sides[1]
    for _ in range(draw(st.integers(0, 2))):
        after = draw(st.integers(1, 30))
        layers += [nn.Linear(width, after, bias=draw(st.booleans())), nn.ReLU()]
        width = after
    num_classes = draw(st.one_of(st.none(), st.integers(1, 30)))
    layers.append(nn.Linear(width, num_classes or 1, bias=draw(st.booleans())))
    return chain(*layers, seed=draw(st.integers(0, 2**16))), shape, num_classes


@st.composite
def tiled_chains(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...], int | None]:
    """Draw chains of what winograd.h computes: many channels, 3 × 3, under 2 × 2 pooling."""
    many = st.integers(8, 14)
    shape = (draw(many), draw(st.integers(4, 13)), draw(st.integers(4, 13)))
    channels, sides = shape[0], shape[1:]
    layers: list[nn.Module] = []
    while min(sides) >= 4 and (not layers or draw(st.booleans())):
        padding, after = draw(st.integers(0, 2)), draw(many)
        layers.append(
            nn.Conv2d(channels, after, 3, padding=padding, bias=draw(st.booleans())),
        )
        layers += [nn.ReLU(), nn.MaxPool2d(2)] if draw(st.booleans()) else [nn.MaxPool2d(2)]
        channels, sides = after, tuple((side + 2 * padding - 2) // 2 for side in sides)
    width = channels * sides[0] * sides[1]
    layers += [nn.Flatten(), nn.Linear(width, 3)]
    return chain(*layers, seed=draw(st.integers(0, 2**16))), shape, 3


def _image_layer(
    draw: st.DrawFn, channels: int, sides: tuple[int, int]
) -> tuple[nn.Module, int, tuple[int, int]]:
    kind = draw(st.sampled_from([nn.Conv2d, nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d]))
    if kind is not nn.Conv2d and min(sides) > 1 and draw(st.booleans()):
        return kind(2), channels, (sides[0] // 2, sides[1] // 2)
    padding = _pair(draw, 0, (2, 2)) if kind is nn.Conv2d else (0, 0)
    kernel = _pair(draw, 1, tuple(min(5, s + 2 * p) for s, p in zip(sides, padding, strict=True)))
    if kind is not nn.Conv2d:
        padding = _pair(draw, 0, (kernel[0] // 2, kernel[1] // 2))
    stride = _pair(draw, 1, (3, 3))
    after = tuple(
        (side + 2 * pad - size) // step + 1
        for side, pad, size, step in zip(sides, padding, kernel, stride, strict=True)
    )
    if kind is nn.MaxPool2d:
        return kind(kernel, stride, padding), channels, after
    if kind is nn.AvgPool2d:
        counted = draw(st.booleans())
        return kind(kernel, stride, padding, count_include_pad=counted), channels, after
    outputs = draw(st.integers(1, 10))
    layer = kind(channels, outputs, kernel, stride, padding, bias=draw(st.booleans()))
    return layer, outputs, after
