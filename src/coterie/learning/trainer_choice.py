"""Which trainer a run uses: on a GPU many peers at once; compiled where it can be; or torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from coterie.errors import ConfigError
from coterie.learning.batched_trainer import BatchedTrainer
from coterie.learning.device import CPU, check_device, choose_device
from coterie.learning.native.gradient_check import check_gradients
from coterie.learning.native.library import Library, find_library
from coterie.learning.native.native_trainer import NativeTrainer
from coterie.learning.native.translate_module import Step, translate_module
from coterie.learning.parallel_trainer import ParallelTrainer, can_fork
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer, check_module, ends_in_softmax
from coterie.learning.trainer import Trainer, Unsupported, Workspace
from coterie.models.layout import Layout

Tell = Callable[[str], None]
Shape = tuple[int, ...]

ON_ANY_DEVICE = ("auto", "batched")

_shown: set[str] = set()


def make_trainer(
    build: Callable[[], nn.Module],
    settings: TrainingSettings,
    workspace: Workspace,
    *,
    threads: int,
    is_classification: bool,
    tell: Tell,
) -> Trainer:
    """Return a trainer for modules such as `build` makes, on `threads` threads or processes."""
    module = build()
    check_module(module, workspace.pools, is_classification=is_classification)
    if is_classification and ends_in_softmax(module, workspace.pools):
        _tell_once(
            "The model ends in a softmax, but the loss, cross-entropy, applies one by itself: "
            "it learns better without the model's own.",
            tell,
        )
    check_training(settings)
    device = choose_device(settings.device) if settings.trainer in ON_ANY_DEVICE else CPU
    if settings.trainer == "batched" or device != CPU:
        try:
            return BatchedTrainer(
                build, settings, workspace, device, is_classification=is_classification
            )
        except Unsupported as reason:
            if settings.trainer == "batched":
                raise ConfigError(
                    f"The batched trainer cannot train this model: {reason}. Use "
                    "training.trainer = auto or torch."
                ) from None
            _tell_once(f"Training on the CPU instead of {device.type}: {reason}.", tell)
    if settings.trainer != "torch":
        try:
            return make_native_trainer(
                module, settings, workspace, threads=threads, is_classification=is_classification
            )
        except Unsupported as reason:
            if settings.trainer == "native":
                raise ConfigError(
                    f"The compiled trainer cannot train this model: {reason}. Use "
                    "training.trainer = auto or torch."
                ) from None
            _tell_once(f"Training with torch instead of the compiled trainer: {reason}.", tell)
    trainer = TorchTrainer(build, settings, workspace, is_classification=is_classification)
    return ParallelTrainer(trainer, threads) if threads > 1 and can_fork() else trainer


def check_training(settings: TrainingSettings) -> None:
    """Refuse a device that cannot be, or not with this trainer; whether one is there shows later.

    Nothing may look for a GPU before processes are forked: they could not use it any more.
    """
    if settings.trainer not in ON_ANY_DEVICE and settings.device not in ("auto", "cpu"):
        raise ConfigError(
            f"training.trainer = {settings.trainer} trains on the CPU only, but training.device = "
            f"{settings.device}. Use training.trainer = auto or batched, or another device."
        )
    check_device(settings.device)


def load_before_fork(module: nn.Module, settings: TrainingSettings, shape: Shape) -> None:
    """Load here, once, what every forked process would otherwise load for itself."""
    try:
        if settings.trainer not in ("torch", "batched"):
            _translate(module, shape)
            return
    except Unsupported:
        pass
    # torch loads its compiler with the first optimiser, which takes seconds.
    torch.optim.SGD([torch.zeros(1)], lr=1.0)


def make_native_trainer(
    module: nn.Module,
    settings: TrainingSettings,
    workspace: Workspace,
    *,
    threads: int,
    is_classification: bool,
) -> NativeTrainer:
    """Return the compiled trainer, its gradients checked; raise Unsupported, which says why not."""
    shape = workspace.pools[0].inputs.shape[1:]
    library, layout, steps = _translate(module, shape)
    check_gradients(library, steps, module, shape, is_classification=is_classification)
    return NativeTrainer(
        library,
        steps,
        layout,
        settings,
        workspace,
        threads=threads,
        is_classification=is_classification,
    )


def _translate(module: nn.Module, shape: Shape) -> tuple[Library, Layout, list[Step]]:
    """Return the compiled library, and the module as it can run it."""
    library = find_library()
    if isinstance(library, str):
        raise Unsupported(library)
    layout = Layout.of(module)
    return library, layout, translate_module(module, layout, shape)


def _tell_once(message: str, tell: Tell) -> None:
    """Say it for the first run only: an experiment has many of the same model."""
    if message not in _shown:
        _shown.add(message)
        tell(message)
