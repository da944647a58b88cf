"""Losses by name: one number per sample, and the mean for training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch import nn

from coterie.errors import ConfigError
from coterie.tasks import Task

OUTPUTS = torch.tensor([[2.0, -1.0], [0.5, 0.25], [-3.0, 1.0]])
LABELS = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])


def test_cross_entropy_of_classes():
    targets = torch.tensor([0, 1, 1])
    losses = Task().losses(OUTPUTS, targets)
    assert torch.equal(losses, F.cross_entropy(OUTPUTS, targets, reduction="none"))
    assert torch.equal(Task().mean_loss(OUTPUTS, targets), F.cross_entropy(OUTPUTS, targets))


def test_cross_entropy_of_sequences_is_the_mean_over_known_positions():
    outputs = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 4, -100], [0, 0, 2]])
    losses = Task().losses(outputs, targets)
    by_hand = [
        F.cross_entropy(outputs[0, :2], targets[0, :2]),
        F.cross_entropy(outputs[1], targets[1]),
    ]
    torch.testing.assert_close(losses, torch.stack(by_hand))
    torch.testing.assert_close(Task().mean_loss(outputs, targets), torch.stack(by_hand).mean())


def test_a_sequence_without_known_positions_has_no_loss():
    outputs = torch.zeros(1, 2, 3)
    assert Task().losses(outputs, torch.full((1, 2), -100)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("bce", F.binary_cross_entropy_with_logits),
        ("mse", F.mse_loss),
        ("mae", F.l1_loss),
        ("huber", F.smooth_l1_loss),
    ],
)
def test_losses_of_several_values_are_means_over_them(name, function):
    each = function(OUTPUTS, LABELS, reduction="none")
    torch.testing.assert_close(Task(name).losses(OUTPUTS, LABELS), each.mean(dim=1))
    torch.testing.assert_close(Task(name).mean_loss(OUTPUTS, LABELS), function(OUTPUTS, LABELS))


@pytest.mark.parametrize("name", ["bce", "mse", "mae", "huber"])
def test_one_output_fits_one_target(name):
    targets = LABELS[:, 0]
    column, flat = OUTPUTS[:, :1], OUTPUTS[:, 0]
    assert torch.equal(Task(name).losses(column, targets), Task(name).losses(flat, targets))
    assert Task(name).losses(column, targets).shape == (3,)


def test_a_function_is_a_loss():
    def twice(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * (outputs - targets).abs().mean(dim=1)

    task = Task(twice)
    assert task.loss_name == "twice"
    torch.testing.assert_close(
        task.losses(OUTPUTS, LABELS), 2 * Task("mae").losses(OUTPUTS, LABELS)
    )
    torch.testing.assert_close(
        task.mean_loss(OUTPUTS, LABELS), 2 * Task("mae").mean_loss(OUTPUTS, LABELS)
    )


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("crossentropy", "no loss 'crossentropy'. Did you mean 'cross-entropy'"),
        (nn.CrossEntropyLoss(), r"reduction='mean', but one loss per sample is needed"),
        (3, "loss is 3, but must be one of"),
    ],
)
def test_what_is_no_loss_is_refused(loss, message):
    with pytest.raises(ConfigError, match=message):
        Task(loss)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda outputs, targets: (outputs - targets).mean(), r"shape \(\)"),
        (lambda outputs, targets: outputs - targets, r"shape \(3, 2\)"),
        (lambda outputs, targets: 1.0, "1.0"),
    ],
)
def test_a_function_must_return_one_loss_per_sample(function, given):
    with pytest.raises(ConfigError, match=f"returned {given} for a batch of 3, but it must return"):
        Task(function).losses(OUTPUTS, LABELS)


def test_a_module_without_reduction_is_a_loss():
    targets = torch.tensor([0, 1, 1])
    task = Task(nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1))
    expected = F.cross_entropy(OUTPUTS, targets, reduction="none", label_smoothing=0.1)
    assert torch.equal(task.losses(OUTPUTS, targets), expected)
