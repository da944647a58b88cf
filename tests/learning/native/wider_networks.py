"""Networks beyond chains of the first layers: normalisations, sums, embeddings, activations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from native_bench import image_pool
from torch import nn

from coterie.data.pools import Pool

CLASSES = 5
TOKENS = 40


class Block(nn.Module):
    """A residual block with batch normalisation."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs, momentum=0.3)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first_norm(self.first(images)))
        return F.relu(self.second_norm(self.second(hidden)) + self.shortcut(images))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        Block(8, 8, 1),
        Block(8, 18, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(18, CLASSES),
    )


class Mixed(nn.Module):
    """Every other operation, and a result that two operations read."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 5, padding=2)
        self.groups = nn.GroupNorm(3, 6)
        self.second = nn.Conv2d(6, 6, 3, padding=1)
        self.third = nn.Conv2d(6, 7, 2, stride=2)
        self.batch = nn.BatchNorm1d(7 * 9)
        self.whole = nn.LayerNorm(7 * 9)
        self.hidden, self.head = nn.Linear(7 * 9, 12), nn.Linear(12, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.silu(self.groups(self.first(images)))
        both = F.gelu(self.second(hidden)) + hidden
        pooled = F.max_pool2d(F.leaky_relu(self.third(both), 0.2), 2, 1)
        flat = torch.tanh(self.whole(self.batch(pooled.view(pooled.size(0), -1))))
        return self.head(torch.sigmoid(self.hidden(flat)))


class BeforeNorm(nn.Module):
    """Residual sums of three results, one of which has borders of two widths to be read with."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4, affine=False)
        self.narrow, self.wide = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 5, padding=2)
        self.pooled, self.head = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        active = torch.relu(self.norm(hidden))
        hidden = self.narrow(active) + self.wide(active) + hidden
        return self.head(F.max_pool2d(F.relu(self.pooled(hidden)), 2).mean(dim=(2, 3)))


class Bag(nn.Module):
    """An embedding whose rows are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TOKENS, 11, padding_idx=0)
        self.hidden, self.head = nn.Linear(11, 6), nn.Linear(6, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.hidden(self.table(tokens).mean(dim=1))))


def flat_embedding() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(TOKENS, 6), nn.Flatten(), nn.Linear(7 * 6, 9), nn.Tanh(), nn.Linear(9, CLASSES)
    )


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(9, 20),
        nn.LayerNorm(20),
        nn.GELU(),
        nn.Linear(20, 13),
        nn.BatchNorm1d(13),
        nn.LeakyReLU(),
        nn.Linear(13, CLASSES),
    )


def tiny_images() -> nn.Module:
    """Return convolutions of which some weights meet only padding."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2),
        nn.GroupNorm(2, 8),
        nn.Conv2d(8, 16, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(16, 5, 3, padding=(1, 0), stride=2),
        nn.Flatten(),
    )


def tiled() -> nn.Module:
    """Return convolutions of many channels that are computed by tiles, with every padding."""
    return nn.Sequential(
        nn.Conv2d(2, 18, 3, padding=1, bias=False),
        nn.BatchNorm2d(18),
        nn.ReLU(),
        nn.Conv2d(18, 20, 3),
        nn.GroupNorm(4, 20),
        nn.SiLU(),
        nn.Conv2d(20, 33, 3, padding=2),
        nn.BatchNorm2d(33),
        nn.Conv2d(33, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


def activated(activation: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(9, 16), activation, nn.Linear(16, CLASSES))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet": (resnet, (3, 10, 9)),
    "resnet on small images": (resnet, (3, 3, 2)),
    "mixed": (Mixed, (2, 8, 8)),
    "before norm": (BeforeNorm, (1, 6, 7)),
    "bag": (Bag, (7,)),
    "flat embedding": (flat_embedding, (7,)),
    "embedding bag": (
        lambda: nn.Sequential(nn.EmbeddingBag(TOKENS, 9), nn.Linear(9, CLASSES)),
        (7,),
    ),
    "perceptron": (perceptron, (9,)),
    "tiny images": (tiny_images, (3, 3, 6)),
    "tiled": (tiled, (2, 10, 12)),
    "tanh": (activated(nn.Tanh()), (9,)),
    "sigmoid": (activated(nn.Sigmoid()), (9,)),
    "gelu": (activated(nn.GELU()), (9,)),
    "gelu by tanh": (activated(nn.GELU("tanh")), (9,)),
    "leaky": (activated(nn.LeakyReLU(0.3)), (9,)),
    "silu": (activated(nn.SiLU()), (9,)),
}
WITH_BATCH_NORM = [
    "resnet",
    "resnet on small images",
    "mixed",
    "before norm",
    "perceptron",
    "tiled",
]


def build(name: str) -> nn.Module:
    """Return one of the networks with weights from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return NETWORKS[name][0]()


def pool_for(name: str, count: int, *, seed: int = 0) -> Pool:
    """Return samples for one of the networks, with classes as targets."""
    shape = NETWORKS[name][1]
    if not name.endswith(("bag", "embedding")):
        return image_pool(count, shape, CLASSES, seed=seed)
    rng = np.random.default_rng(seed)
    return Pool(rng.integers(0, TOKENS, (count, *shape)), rng.integers(0, CLASSES, count))
