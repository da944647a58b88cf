"""Which modules the compiled trainer recognises, as what, and why it refuses the others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from native_bench import chain, check_gradients_of, gradients, image_pool
from torch import nn

from coterie.learning.native.library import (
    ADD,
    AVERAGE_POOL,
    BATCH_NORM,
    CONVOLUTION,
    DROPOUT,
    LINEAR,
    MAX_POOL,
    RELU,
)
from coterie.learning.native.step import Step
from coterie.learning.native.translate_module import translate_module
from coterie.learning.trainer import Unsupported
from coterie.models.architectures import ARCHITECTURES
from coterie.models.layout import Layout

IMAGE = (1, 6, 6)


def read(module: nn.Module, shape: tuple[int, ...] = IMAGE) -> list[Step]:
    return translate_module(module, Layout.of(module), shape)


def kinds(module: nn.Module, shape: tuple[int, ...] = IMAGE) -> list[int]:
    return [step.kind for step in read(module, shape)]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES.keys() - {"resnet-18"}))
def test_every_architecture_is_recognised(name):
    known = ARCHITECTURES[name]
    module = known.build()
    steps = read(module, known.input_shape)
    parameters = [step for step in steps if step.kind in (CONVOLUTION, LINEAR)]
    assert [step.layer for step in parameters] == list(range(Layout.of(module).num_layers))
    # ReLU and 2 × 2 pooling are part of the layers before them.
    dropping = {DROPOUT} if name in ("mlp", "cifar-cnn-dropout") else set()
    assert {step.kind for step in steps} <= {CONVOLUTION, LINEAR} | dropping
    assert all(step.pool == 2 and step.relu for step in steps if step.kind == CONVOLUTION)


def test_resnet_is_recognised():
    """ReLU is part of the normalisations and sums; each sum reads the block before it."""
    known = ARCHITECTURES["resnet-18"]
    steps = read(known.build(), known.input_shape)
    found = Counter(step.kind for step in steps)
    assert found == {
        CONVOLUTION: 20,
        BATCH_NORM: 20,
        ADD: 8,
        MAX_POOL: 1,
        AVERAGE_POOL: 1,
        LINEAR: 1,
    }
    assert all(step.relu for step in steps if step.kind == ADD)


class Own(nn.Module):
    """A user's module: layers in the constructor, the rest in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 2, 2)
        self.head = nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.max_pool2d(F.relu(self.first(images)), 2)
        hidden = F.avg_pool2d(torch.relu(self.second(hidden)), 1)
        return self.head(torch.flatten(hidden, 1))


class OwnInOtherWords(Own):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = torch.max_pool2d(self.first(images), kernel_size=2, stride=2).relu()
        hidden = F.max_pool2d(F.relu(input=self.second(hidden)), (1, 1), stride=(1, 1))
        return self.head(hidden.flatten(start_dim=1))


@pytest.mark.parametrize(("build", "between"), [(Own, AVERAGE_POOL), (OwnInOtherWords, MAX_POOL)])
def test_modules_with_a_forward_of_their_own_are_recognised(build, between):
    module = build()
    assert kinds(module) == [CONVOLUTION, CONVOLUTION, between, LINEAR]
    check_gradients_of(module, image_pool(9, IMAGE, 4))


def test_nested_modules_are_recognised_in_place():
    module = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(36, 5)), nn.Identity(), nn.ReLU())
    module.append(nn.ModuleDict({"head": nn.Linear(5, 2)})["head"])
    steps = read(module)
    assert [(step.kind, step.weight, step.bias) for step in steps] == [
        (LINEAR, 0, 180),
        (LINEAR, 185, 195),
    ]
    assert [step.relu for step in steps] == [True, False]


def test_what_cannot_be_joined_stays_an_operation():
    conv = nn.Conv2d(1, 2, 1)
    tail = [nn.Flatten(), nn.Linear(2 * 36, 2)]
    assert kinds(nn.Sequential(nn.ReLU(), conv, nn.MaxPool2d(2, 1, 1), *tail)) == (
        [RELU, CONVOLUTION, MAX_POOL, LINEAR]
    )
    assert kinds(nn.Sequential(conv, nn.MaxPool2d(2), nn.MaxPool2d(2), *tail)) == (
        [CONVOLUTION, MAX_POOL, LINEAR]
    )
    assert kinds(nn.Sequential(conv, nn.Dropout(0.5), nn.ReLU(), *tail)) == (
        [CONVOLUTION, DROPOUT, RELU, LINEAR]
    )


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(36, 36), nn.Linear(36, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(images, 1)
        return self.head(flat + self.inner(flat))


class Forked(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(images, 1)
        self.inner(flat)
        return self.head(flat)


class Reading(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(images, 1)
        return self.head(self.inner(flat) if flat.sum() > 0 else flat)


class Twice(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.inner(torch.flatten(images, 1))))


class Unused(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(images, 1))


class Noisy(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(images, 1)
        return self.head(self.inner(flat + torch.randn_like(flat) if self.training else flat))


class OtherwiseInTraining(Residual):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(images, 1)
        return self.head(torch.relu(self.inner(flat)) if self.training else self.inner(flat))


class Backwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(4, 2), nn.Linear(36, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(torch.flatten(images, 1)))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(36)), nn.Linear(36, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(images, 1) * self.scale)


class Pair(Unused):
    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(torch.flatten(images, 1))
        return scores, scores


class AlwaysDropping(nn.Sequential):
    """Dropout also in evaluation, as Monte Carlo dropout wants it."""

    def train(self, mode: bool = True) -> nn.Module:
        return super().train(True)


class MyConv(nn.Conv2d):
    pass


def flat(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *layers)


def images(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))


def tied() -> nn.Module:
    module = flat(nn.Linear(36, 36), nn.ReLU(), nn.Linear(36, 36))
    module[3].weight = module[1].weight
    return module


def frozen() -> nn.Module:
    module = flat(nn.Linear(36, 4), nn.Linear(4, 2))
    module[1].weight.requires_grad_(False)
    return module


def hooked(register: str, *, part: int | None = None) -> nn.Module:
    module = flat(nn.Linear(36, 4), nn.Linear(4, 2))
    getattr(module if part is None else module[part], register)(lambda *_: None)
    return module


def watched_parameter(register: str) -> nn.Module:
    module = flat(nn.Linear(36, 2))
    getattr(module[1].weight, register)(lambda *_: None)
    return module


REFUSED = {
    "forked": (Forked, "result at 'inner' is not used"),
    "decides by values": (Reading, "cannot be read"),
    "used twice": (Twice, "'inner' is used twice"),
    "tied weights": (tied, "'3' is used twice or shares its weights"),
    "unused parameters": (Unused, "layer uses its parameter 'inner.bias'"),
    "noise in training": (Noisy, "'randn_like' is not|sum"),
    "another path in training": (OtherwiseInTraining, "different layers in training"),
    "always in training": (
        lambda: AlwaysDropping(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 2)),
        "ignore train",
    ),
    "parameter without a layer": (Scaled, "'scale' is not"),
    "returns a pair": (Pair, "does not return the result"),
    "only one layer": (lambda: nn.Linear(6, 2), "not a supported operation|on one result"),
    "frozen": (frozen, "frozen"),
    "batch normalisation of another shape": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm1d(2), nn.Flatten(), nn.Linear(32, 2)
        ),
        "not for this shape",
    ),
    "batch normalisation that averages all batches": (
        lambda: images(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, momentum=None)),
        "averages them over all batches",
    ),
    "batch normalisation without statistics": (
        lambda: images(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)),
        "no running statistics",
    ),
    "subclass": (lambda: images(MyConv(1, 2, 3)), "'_0_weight' is not"),
    "unknown activation": (lambda: flat(nn.Linear(36, 2), nn.Softplus()), "'2' is a Softplus"),
    "groups": (lambda: images(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 2, groups=2)), "groups"),
    "dilation": (lambda: images(nn.Conv2d(1, 4, 3, dilation=2)), "dilation"),
    "reflection": (
        lambda: images(nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect")),
        "padding mode",
    ),
    "padding in words": (lambda: images(nn.Conv2d(1, 4, 3, padding="same")), "'same'"),
    "ceil mode": (lambda: images(nn.MaxPool2d(2, ceil_mode=True)), "ceil mode"),
    "average in ceil mode": (lambda: images(nn.AvgPool2d(2, ceil_mode=True)), "ceil mode"),
    "dilated pooling": (lambda: images(nn.MaxPool2d(2, dilation=2)), "dilation"),
    "a divisor": (lambda: images(nn.AvgPool2d(2, divisor_override=3)), "divisor"),
    "no layer to train": (lambda: nn.Sequential(nn.Flatten(), nn.ReLU()), "no parameters"),
    "flattens the batch": (
        lambda: nn.Sequential(nn.Flatten(0), nn.Linear(36, 2)),
        "does not flatten",
    ),
    "linear on images": (lambda: nn.Sequential(nn.Linear(6, 2), nn.Flatten()), "flattening"),
    "convolution after flattening": (
        lambda: nn.Sequential(nn.Flatten(2), nn.Conv2d(1, 2, 3)),
        "does not flatten|after flattening",
    ),
    "log-softmax in between": (
        lambda: flat(nn.Linear(36, 4), nn.LogSoftmax(1), nn.Linear(4, 2)),
        "not its last",
    ),
    "log-softmax over samples": (lambda: flat(nn.Linear(36, 4), nn.LogSoftmax(0)), "classes"),
    "softmax": (lambda: flat(nn.Linear(36, 4), nn.Softmax(1)), "'2' is a Softmax"),
    "forward hook": (lambda: hooked("register_forward_hook", part=1), "'1' has hooks"),
    "forward pre-hook": (lambda: hooked("register_forward_pre_hook", part=2), "'2' has hooks"),
    "backward hook": (lambda: hooked("register_full_backward_hook", part=1), "'1' has hooks"),
    "backward pre-hook": (
        lambda: hooked("register_full_backward_pre_hook", part=1),
        "'1' has hooks",
    ),
    "hook on the whole": (lambda: hooked("register_forward_hook"), "'Sequential' has hooks"),
    "gradient hook": (lambda: watched_parameter("register_hook"), r"'1\.weight' has hooks"),
    "accumulation hook": (
        lambda: watched_parameter("register_post_accumulate_grad_hook"),
        r"'1\.weight' has hooks",
    ),
    "spectral norm": (
        lambda: flat(nn.utils.parametrizations.spectral_norm(nn.Linear(36, 2))),
        "ParametrizedLinear",
    ),
    "weight norm": (
        lambda: flat(nn.utils.parametrizations.weight_norm(nn.Linear(36, 2))),
        "ParametrizedLinear|cannot be read|is not a supported",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_is_refused_and_why(name):
    build, reason = REFUSED[name]
    module = build()
    if name == "no layer to train":
        module.append(nn.PReLU())
        reason = "PReLU"
    if any(isinstance(layer, nn.LazyLinear) for layer in module.modules()):
        with torch.no_grad():
            module(torch.zeros(2, *IMAGE))
    with pytest.raises(Unsupported, match=reason):
        read(module)


@pytest.mark.parametrize("shape", [(), (4, 9), (1, 2, 3, 6)])
def test_samples_that_are_neither_flat_nor_images_are_refused(shape):
    with pytest.raises(Unsupported, match="neither flat nor images"):
        read(flat(nn.Linear(36, 2)), shape)


class OddArguments(nn.Module):
    """Arguments that torch takes, but not in a form that can be read here."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options, self.head = options, nn.Linear(9, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(F.max_pool2d(images, **self.options), 1))


@pytest.mark.parametrize(
    "options", [{"kernel_size": (2,)}, {"kernel_size": 2, "stride": ()}, {"kernel_size": "2"}]
)
def test_arguments_in_another_form_are_refused_not_misread(options):
    with pytest.raises(Unsupported, match="unsupported arguments"):
        read(OddArguments(**options))


def test_log_softmax_last_is_the_cross_entropy_of_its_scores():
    scores = chain(nn.Flatten(), nn.Linear(36, 3))
    module = nn.Sequential(*scores, nn.LogSoftmax(1))
    pool = image_pool(9, IMAGE, 3)
    assert kinds(module) == [LINEAR]
    check_gradients_of(module, pool)
    np.testing.assert_array_equal(gradients(module, pool), gradients(scores, pool))


@pytest.mark.parametrize("between", [[], [nn.Dropout(0.5)], [nn.ReLU()]])
def test_log_softmax_is_no_part_of_a_regression(between):
    """Of one output it is zero, and no squared error goes without it."""
    with pytest.raises(Unsupported, match="single output is always zero"):
        read(flat(nn.Linear(36, 1), *between, nn.LogSoftmax(1)))


def test_the_mode_of_the_module_does_not_matter():
    module = ARCHITECTURES["mlp"].build()
    assert read(module.train(), (1, 28, 28)) == read(module.eval(), (1, 28, 28))
