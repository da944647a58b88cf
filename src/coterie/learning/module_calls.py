"""Calls a user's module, and checks before training that it fits the data and the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coterie.data.pools import ModelInputs, Pool, list_inputs, map_inputs
from coterie.errors import ConfigError
from coterie.learning.trainer import EvaluateJob, Evaluation, Matrix
from coterie.tasks import Task
from coterie.tasks.losses import like_targets

TensorInputs: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...] | dict[str, torch.Tensor]
CHECKED_SAMPLES = 2
"""Samples of the first check: two, so that a lost first dimension is noticed."""
MODULE_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError)
"""What a user's module usually raises for inputs that do not fit."""


def pick(inputs: TensorInputs, rows: torch.Tensor) -> TensorInputs:
    """Return a batch: the rows of each input."""
    return map_inputs(lambda each: each.index_select(0, rows), inputs)


def outputs_of(module: nn.Module, inputs: TensorInputs) -> torch.Tensor:
    """Return a module's output tensor.

    Several inputs are passed in order, or by name. Of a tuple the first element counts, of an
    object its `logits`.
    """
    if isinstance(inputs, dict):
        found = module(**inputs)
    else:
        found = module(*inputs) if isinstance(inputs, tuple) else module(inputs)
    return read_outputs(found)


def read_outputs(found: Any) -> torch.Tensor:
    """Return the tensor in what a module returned."""
    if isinstance(found, torch.Tensor):
        return found
    logits = found.get("logits") if isinstance(found, dict) else getattr(found, "logits", None)
    if logits is None and isinstance(found, tuple) and found:
        logits = found[0]
    if not isinstance(logits, torch.Tensor):
        raise ConfigError(
            f"The model returns a {type(found).__name__}, but it must return a tensor with one row "
            "per sample, a tuple that begins with one, or an object with one as `logits`."
        )
    return logits


def predict(module: nn.Module, inputs: ModelInputs, rows_at_once: int) -> Matrix:
    """Return the outputs of a module for all rows of inputs, (n, …).

    Whole numbers become floats if the module does not take them.
    """
    count = len(list_inputs(inputs)[0])
    if not integer_check(lambda: module)(inputs):
        inputs = map_inputs(lambda each: each.astype(np.float32), inputs)
    found = []
    with single_threaded(), torch.no_grad():
        for start in range(0, count, rows_at_once):
            part = slice(start, start + rows_at_once)
            batch = map_inputs(torch.from_numpy, map_inputs(itemgetter(part), inputs))
            found.append(outputs_of(module.eval(), batch))
    return np.asarray(torch.cat(found).numpy())


def evaluation_of(
    task: Task,
    job: EvaluateJob,
    outputs: torch.Tensor,
    targets: torch.Tensor,
    losses: npt.NDArray[np.float32],
) -> Evaluation:
    """Return an evaluation from a model's outputs and losses for all samples of a job."""
    further = task.metrics_from(outputs, targets, losses) if job.with_metrics else ()
    return Evaluation(losses, task.score_from(outputs, targets, losses), further)


def check_module(module: nn.Module, pools: Sequence[Pool], task: Task) -> None:
    """Run a few samples through a module, to find wrong shapes before training."""
    pool = pools[0]
    inputs = map_inputs(lambda each: torch.from_numpy(each[:CHECKED_SAMPLES]), pool.inputs)
    targets = torch.from_numpy(pool.targets[:CHECKED_SAMPLES])
    shapes = ", ".join(str(tuple(each.shape[1:])) for each in list_inputs(inputs))
    try:
        # On one thread: a pool of threads would not work in forked workers.
        with single_threaded(), torch.no_grad():
            outputs = outputs_of(module.eval(), inputs)
    except MODULE_ERRORS as error:
        several = len(list_inputs(inputs)) > 1
        raise ConfigError(
            f"The model fails on {'inputs' if several else 'a sample'} of shape {shapes}: {error}\n"
            "Make its first layer fit the samples, or change the shape of the samples."
        ) from None
    if isinstance(task.loss, str):
        _check_outputs(outputs, pools, task)
    with single_threaded(), torch.no_grad():
        try:
            task.losses(outputs, targets)
        except MODULE_ERRORS as error:
            raise ConfigError(
                f"The loss {task.loss_name} fails for outputs of shape {tuple(outputs.shape)} and "
                f"targets of shape {tuple(targets.shape)}: {error}"
            ) from None


def integer_check(build: Callable[[], nn.Module]) -> Callable[[ModelInputs], bool]:
    """Return a function that says whether whole numbers stay whole numbers as inputs of a model.

    They do not if the model fails with them, but not with floats.
    """

    def takes(inputs: ModelInputs) -> bool:
        if all(each.dtype == np.float32 for each in list_inputs(inputs)):
            return True
        module = build().eval()
        return _runs(module, inputs, None) or not _runs(module, inputs, torch.float32)

    return takes


def _runs(module: nn.Module, inputs: ModelInputs, kind: torch.dtype | None) -> bool:
    few = map_inputs(lambda each: torch.from_numpy(each[:CHECKED_SAMPLES]).to(kind), inputs)
    try:
        with single_threaded(), torch.no_grad():
            outputs_of(module, few)
    except (*MODULE_ERRORS, ConfigError):
        return False
    return True


def _check_outputs(outputs: torch.Tensor, pools: Sequence[Pool], task: Task) -> None:
    """Refuse outputs that do not fit the targets of a named loss."""
    targets = pools[0].targets
    shape = tuple(outputs.shape)
    if task.loss != "cross-entropy":
        wanted = (len(outputs), *targets.shape[1:])
        if tuple(like_targets(outputs, torch.empty(wanted)).shape) == wanted:
            return
        each = "one output per sample" if targets.ndim == 1 else f"outputs of shape {wanted[1:]}"
        hint = " For classes give integer targets, such as labels.astype(int)."
        raise ConfigError(
            f"For {len(outputs)} samples the model returns shape {shape}, but the targets are "
            f"{_described(task, targets)}, so {each} is needed."
            f"{hint if task.loss == 'mse' and targets.ndim == 1 else ''}"
        )
    needed = max(int(pool.targets.max()) for pool in pools) + 1
    wanted = (len(outputs), *targets.shape[1:])
    if outputs.ndim != targets.ndim + 1 or shape[:-1] != wanted or shape[-1] < needed:
        needs = ", ".join(map(str, (*wanted, f"at least {needed}")))
        raise ConfigError(
            f"For {len(outputs)} samples the model returns shape {shape}, but ({needs}) is needed. "
            f"The targets are integers up to "
            f"{needed - 1}, so there are {needed} classes, and each needs a score. Number the "
            "classes from 0. For regression give float targets."
        )


def _described(task: Task, targets: npt.NDArray[Any]) -> str:
    kind = "labels" if task.loss == "bce" else "values"
    count = "one per sample" if targets.ndim == 1 else f"of shape {targets.shape[1:]} per sample"
    return f"{kind}, {count}"


def ends_in_softmax(module: nn.Module, pools: Sequence[Pool]) -> bool:
    """Whether a module's outputs are probabilities: non-negative rows that sum to 1."""
    with single_threaded(), torch.no_grad():
        inputs = map_inputs(lambda each: torch.from_numpy(each[:4]), pools[0].inputs)
        outputs = outputs_of(module.eval(), inputs)
    sums = outputs.sum(dim=-1)
    sums_to_one = torch.isclose(sums, torch.ones_like(sums), atol=1e-5)
    return outputs.shape[-1] > 1 and bool((outputs >= 0).all() and sums_to_one.all())


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch use one thread: peers run in parallel, and sums must not depend on threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
