"""The torch trainer: trains any module, one job after another, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch import nn

from coterie.data.pools import Pool, Samples
from coterie.errors import ConfigError, TrainingError
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import (
    EvaluateJob,
    Evaluation,
    Trainer,
    TrainJob,
    Workspace,
    batch_order,
)
from coterie.models.vector import FlatModule

EVALUATION_BATCH = 256


class TorchTrainer(Trainer):
    """Trains through autograd; weights, gradients and data are cached as flat tensors."""

    name = "torch"

    def __init__(
        self,
        build: Callable[[], nn.Module],
        settings: TrainingSettings,
        workspace: Workspace,
        *,
        is_classification: bool,
    ) -> None:
        self._flat = FlatModule(build())
        self.layout = self._flat.layout
        self._settings = settings
        self.workspace = workspace
        self._is_classification = is_classification
        self._pools = [
            (torch.from_numpy(pool.inputs), torch.from_numpy(pool.targets))
            for pool in workspace.pools
        ]
        check_module(self._flat.module, workspace.pools, is_classification=is_classification)
        # The first optimiser loads torch's compiler: once here, not in every forked worker.
        make_optimizer(settings, self._flat.trainable_views())

    def train(self, jobs: Sequence[TrainJob]) -> list[float]:
        """Train each job's model in place, one after another."""
        with single_threaded():
            return [self._train(job) for job in jobs]

    def evaluate(self, jobs: Sequence[EvaluateJob]) -> list[Evaluation]:
        """Evaluate each job's model, one after another."""
        with single_threaded(), torch.no_grad():
            return [self._evaluate(job) for job in jobs]

    def _train(self, job: TrainJob) -> float:
        row = self.workspace.model(job.model)
        self._flat.load(row)
        module = self._flat.training_module()
        # Random layers use torch's global generator, so its state is restored afterwards.
        state = torch.get_rng_state()
        torch.default_generator.manual_seed(job.bits % 2**63)
        try:
            with self._only_last(job.last_layers) as optimizer:
                loss = self._run_epochs(module, optimizer, job)
        except (RuntimeError, ValueError, IndexError) as error:
            raise TrainingError(f"The module failed while training: {error}") from error
        finally:
            torch.set_rng_state(state)
        # Layers that are not trained also keep their running statistics.
        self._flat.store(row, job.last_layers)
        return loss if bool(torch.isfinite(self._flat.flat).all()) else float("nan")

    def _run_epochs(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, job: TrainJob
    ) -> float:
        inputs, targets = self._pools[job.samples.pool]
        rows = job.samples.rows()
        losses: list[torch.Tensor] = []
        size = self._settings.batch_size
        for places in batch_order(job):
            losses.clear()
            order = torch.from_numpy(rows[places])
            for start in range(0, len(order), size):
                batch = order[start : start + size]
                outputs = module(inputs.index_select(0, batch))
                loss = self._loss(outputs, targets.index_select(0, batch), "mean")
                self._flat.flat_grad.zero_()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(loss.detach() * len(batch))
        return float(torch.stack(losses).sum(dtype=torch.float64)) / len(rows)

    def _evaluate(self, job: EvaluateJob) -> Evaluation:
        self._flat.load(self.workspace.evaluated(job, self.layout))
        module = self._flat.module.eval()
        losses, correct = [], []
        for inputs, targets in self._batches(job.samples):
            outputs = module(inputs)
            losses.append(self._loss(outputs, targets, "none"))
            if self._is_classification:
                correct.append(outputs.argmax(dim=1) == targets)
        return Evaluation(
            torch.cat(losses).numpy(), torch.cat(correct).numpy() if correct else None
        )

    def _batches(self, samples: Samples) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        inputs, targets = self._pools[samples.pool]
        if samples.chosen is None:
            for start in range(samples.start, samples.stop, EVALUATION_BATCH):
                place = slice(start, min(start + EVALUATION_BATCH, samples.stop))
                yield inputs[place], targets[place]
        else:
            chosen = torch.from_numpy(samples.chosen)
            for start in range(0, len(chosen), EVALUATION_BATCH):
                rows = chosen[start : start + EVALUATION_BATCH]
                yield inputs.index_select(0, rows), targets.index_select(0, rows)

    def _loss(self, outputs: torch.Tensor, targets: torch.Tensor, reduction: str) -> torch.Tensor:
        return loss_of(outputs, targets, reduction, is_classification=self._is_classification)

    @contextmanager
    def _only_last(self, last_layers: int | None) -> Iterator[torch.optim.Optimizer]:
        """Yield a new optimiser for the last layers; the others have no gradients meanwhile."""
        views = self._flat.trainable_views(last_layers)
        first = 0 if last_layers is None else self.layout.num_layers - last_layers
        early = {entry.name for entry in self.layout.entries if entry.layer < first}
        frozen = [
            parameter
            for name, parameter in self._flat.module.named_parameters()
            if name in early and parameter.requires_grad
        ]
        for parameter in frozen:
            parameter.requires_grad_(False)
        try:
            yield make_optimizer(self._settings, views)
        finally:
            for parameter in frozen:
                parameter.requires_grad_(True)


def check_module(module: nn.Module, pools: Sequence[Pool], *, is_classification: bool) -> None:
    """Run one sample through a module, to find wrong shapes before training."""
    inputs = torch.from_numpy(pools[0].inputs[:1])
    try:
        # On one thread: a pool of threads would not work in forked workers.
        with single_threaded(), torch.no_grad():
            outputs = module.eval()(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ConfigError(
            f"The model fails on a sample of shape {tuple(inputs.shape[1:])}: {error}\nMake its "
            "first layer fit the samples, or change the shape of the samples."
        ) from None
    if not isinstance(outputs, torch.Tensor):
        raise ConfigError(
            f"The model returns a {type(outputs).__name__}, but it must return a tensor: one score "
            "per class, or one value for regression."
        )
    highest = max(int(pool.targets.max()) for pool in pools)
    needed = highest + 1 if is_classification else 1
    enough = outputs.ndim == 2 and (
        outputs.shape[1] >= needed if is_classification else outputs.shape[1] == 1
    )
    if not enough:
        reason = (
            f"The targets are integers up to {highest}, so there are {needed} classes, and each "
            "needs a score. Number the classes from 0. For regression give float targets."
            if is_classification
            else "The targets are floats, which means regression, with one value per sample. For "
            "classes give integer targets, such as labels.astype(int)."
        )
        raise ConfigError(
            f"For one sample the model returns shape {tuple(outputs.shape)}, but (1, "
            f"{f'at least {needed}' if is_classification else 1}) is needed. {reason}"
        )


def ends_in_softmax(module: nn.Module, pools: Sequence[Pool]) -> bool:
    """Whether a module's outputs are probabilities: non-negative rows that sum to 1."""
    with single_threaded(), torch.no_grad():
        outputs = module.eval()(torch.from_numpy(pools[0].inputs[:4]))
    sums_to_one = torch.isclose(outputs.sum(dim=1), torch.ones(len(outputs)), atol=1e-5)
    return outputs.shape[1] > 1 and bool((outputs >= 0).all() and sums_to_one.all())


def loss_of(
    outputs: torch.Tensor, targets: torch.Tensor, reduction: str, *, is_classification: bool
) -> torch.Tensor:
    """Return cross-entropy, or squared error, of outputs (n, …) against targets (n,)."""
    if is_classification:
        return F.cross_entropy(outputs, targets, reduction=reduction)
    return F.mse_loss(outputs.squeeze(1), targets, reduction=reduction)


def make_optimizer(settings: TrainingSettings, views: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Return a new optimiser for `views`."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            views, lr=rate, momentum=settings.momentum, weight_decay=decay, fused=True
        )
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(views, lr=rate, weight_decay=decay, fused=True)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch use one thread: peers run in parallel, and sums must not depend on threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
