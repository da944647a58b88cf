"""The torch trainer: trains any module, one job after another, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter

import torch
from torch import nn

from coterie.data.pools import Samples, map_inputs
from coterie.errors import TrainingError
from coterie.learning.module_calls import (
    TensorInputs,
    check_module,
    evaluation_of,
    outputs_of,
    pick,
    single_threaded,
)
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
from coterie.tasks import Task

EVALUATION_BATCH = 256


class TorchTrainer(Trainer):
    """Trains through autograd; weights, gradients and data are cached as flat tensors."""

    name = "torch"

    def __init__(
        self,
        build: Callable[[], nn.Module],
        settings: TrainingSettings,
        workspace: Workspace,
        task: Task,
    ) -> None:
        self._flat = FlatModule(build())
        self.layout = self._flat.layout
        self._settings = settings
        self.workspace = workspace
        self._task = task
        self._pools = [
            (map_inputs(torch.from_numpy, pool.inputs), torch.from_numpy(pool.targets))
            for pool in workspace.pools
        ]
        check_module(self._flat.module, workspace.pools, task)
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
                outputs = outputs_of(module, pick(inputs, batch))
                loss = self._task.mean_loss(outputs, targets.index_select(0, batch))
                self._flat.flat_grad.zero_()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(loss.detach() * len(batch))
        return float(torch.stack(losses).sum(dtype=torch.float64)) / len(rows)

    def _evaluate(self, job: EvaluateJob) -> Evaluation:
        self._flat.load(self.workspace.evaluated(job, self.layout))
        module = self._flat.module.eval()
        outputs, targets, losses = [], [], []
        for inputs, wanted in self._batches(job.samples):
            outputs.append(outputs_of(module, inputs))
            targets.append(wanted)
            losses.append(self._task.losses(outputs[-1], wanted))
        return evaluation_of(
            self._task, job, torch.cat(outputs), torch.cat(targets), torch.cat(losses).numpy()
        )

    def _batches(self, samples: Samples) -> Iterator[tuple[TensorInputs, torch.Tensor]]:
        inputs, targets = self._pools[samples.pool]
        if samples.chosen is None:
            for start in range(samples.start, samples.stop, EVALUATION_BATCH):
                place = slice(start, min(start + EVALUATION_BATCH, samples.stop))
                yield map_inputs(itemgetter(place), inputs), targets[place]
        else:
            chosen = torch.from_numpy(samples.chosen)
            for start in range(0, len(chosen), EVALUATION_BATCH):
                rows = chosen[start : start + EVALUATION_BATCH]
                yield pick(inputs, rows), targets.index_select(0, rows)

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


def make_optimizer(settings: TrainingSettings, views: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Return a new optimiser for `views`."""
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            views, lr=rate, momentum=settings.momentum, weight_decay=decay, fused=True
        )
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(views, lr=rate, weight_decay=decay, fused=True)
