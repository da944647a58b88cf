"""Chooses the trainer of a run: batched on a GPU, compiled if possible, or torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from coterie.data.pools import Pool
from coterie.errors import ConfigError
from coterie.learning.batched_trainer import BatchedTrainer
from coterie.learning.device import CPU, check_device, choose_device
from coterie.learning.module_calls import check_module, ends_in_softmax
from coterie.learning.native.gradient_check import check_gradients
from coterie.learning.native.library import Library, find_library
from coterie.learning.native.native_trainer import NativeTrainer
from coterie.learning.native.step import Step
from coterie.learning.native.translate_module import translate_module
from coterie.learning.parallel_trainer import ParallelTrainer, can_fork
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import TorchTrainer
from coterie.learning.trainer import Trainer, Unsupported, Workspace
from coterie.models.layout import Layout
from coterie.tasks import Task

Tell = Callable[[str], None]
Shape = tuple[int, ...]

ON_ANY_DEVICE = ("auto", "batched")

_shown: set[str] = set()


def make_trainer(
    build: Callable[[], nn.Module],
    settings: TrainingSettings,
    workspace: Workspace,
    task: Task,
    *,
    threads: int,
    tell: Tell,
) -> Trainer:
    """Return a trainer for the modules of `build`, with `threads` threads or processes."""
    module = build()
    check_module(module, workspace.pools, task)
    if task.loss == "cross-entropy" and ends_in_softmax(module, workspace.pools):
        _tell_once(
            "The model ends in a softmax, but the loss (cross-entropy) already applies one. The "
            "model learns better without its softmax.",
            tell,
        )
    check_training(settings)
    device = choose_device(settings.device) if settings.trainer in ON_ANY_DEVICE else CPU
    if settings.trainer == "batched" or device != CPU:
        try:
            return BatchedTrainer(build, settings, workspace, device, task)
        except Unsupported as reason:
            if settings.trainer == "batched":
                raise ConfigError(
                    f"The batched trainer cannot train this model: {reason}. Use "
                    "training.trainer = auto or torch."
                ) from None
            _tell_once(f"Training on the CPU instead of {device.type}: {reason}.", tell)
    if settings.trainer != "torch":
        try:
            return make_native_trainer(module, settings, workspace, task, threads=threads)
        except Unsupported as reason:
            if settings.trainer == "native":
                raise ConfigError(
                    f"The compiled trainer cannot train this model: {reason}. Use "
                    "training.trainer = auto or torch."
                ) from None
            _tell_once(f"Training with torch instead of the compiled trainer: {reason}.", tell)
    trainer = TorchTrainer(build, settings, workspace, task)
    return ParallelTrainer(trainer, threads) if threads > 1 and can_fork() else trainer


def check_training(settings: TrainingSettings) -> None:
    """Refuse a device that torch or the trainer does not support.

    Whether there is such a device is checked later: after a search for GPUs, forked processes could
    not use them.
    """
    if settings.trainer not in ON_ANY_DEVICE and settings.device not in ("auto", "cpu"):
        raise ConfigError(
            f"training.trainer = {settings.trainer} trains only on the CPU, but training.device is "
            f"{settings.device}. Use training.trainer = auto or batched, or training.device = cpu."
        )
    check_device(settings.device)


def load_before_fork(module: nn.Module, settings: TrainingSettings, shape: Shape) -> None:
    """Load libraries once, before processes fork, instead of in each process."""
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
    task: Task,
    *,
    threads: int,
) -> NativeTrainer:
    """Return the compiled trainer after a check of its gradients, or raise Unsupported."""
    _check_compilable(workspace.pools, task)
    shape = workspace.pools[0].only_inputs.shape[1:]
    library, layout, steps = _translate(module, shape)
    check_gradients(library, steps, module, shape, task)
    return NativeTrainer(library, steps, layout, settings, workspace, task, threads=threads)


def _check_compilable(pools: Sequence[Pool], task: Task) -> None:
    """Raise Unsupported for tasks and inputs that compiled code does not know."""
    if not isinstance(task.loss, str):
        raise Unsupported(f"the loss is the function {task.loss_name}")
    if any(isinstance(pool.inputs, tuple | dict) for pool in pools):
        raise Unsupported("it has several inputs")
    if task.loss == "cross-entropy" and any(pool.targets.ndim != 1 for pool in pools):
        raise Unsupported("there are several classes per sample")


def _translate(module: nn.Module, shape: Shape) -> tuple[Library, Layout, list[Step]]:
    """Return the compiled library, and the module as its steps."""
    library = find_library()
    if isinstance(library, str):
        raise Unsupported(library)
    layout = Layout.of(module)
    return library, layout, translate_module(module, layout, shape)


def _tell_once(message: str, tell: Tell) -> None:
    """Show a message only once: many runs of an experiment have the same model."""
    if message not in _shown:
        _shown.add(message)
        tell(message)
