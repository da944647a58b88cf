"""Computes with many models of one module at once: their weights are the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from coterie.learning.keyed_dropout import key_dropout
from coterie.learning.module_calls import read_outputs
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import make_optimizer
from coterie.models.frozen_part import frozen_norms, frozen_tensors
from coterie.models.layout import Layout, LayoutEntry
from coterie.tasks import Task

Tensors = dict[str, torch.Tensor]


class StackedModule:
    """A module with the weights (C, P) of C models, each with its own samples."""

    def __init__(self, module: nn.Module, device: torch.device, task: Task) -> None:
        self.dropout_keys = key_dropout(module)
        self.layout = Layout.of(module)
        self._frozen_norms = frozen_norms(module)
        frozen = {each.name for each in frozen_tensors(module)}
        self._module = module.to(device)
        self._task = task
        self._counters = {
            name: buffer.clone()
            for name, buffer in module.named_buffers()
            if not buffer.is_floating_point() and name not in frozen
        }
        shared = frozen | set(self._counters)
        self.float_buffers = {name for name, _ in module.named_buffers()} - shared

    def counters(self, count: int) -> Tensors:
        """Return the initial integer buffers of `count` models, (C, …)."""
        return {
            name: initial.expand(count, *initial.shape).clone()
            for name, initial in self._counters.items()
        }

    def gradients(
        self, trained: Tensors, frozen: Tensors, buffers: Tensors, *data: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        """Return gradients by name, mean losses (C,) and the buffers after a batch.

        `data` are inputs (C, n, *shape) and targets (C, n).
        """
        self._module.train()
        for norm in self._frozen_norms:
            norm.training = False
        of_all = vmap(grad_and_value(self._mean_loss, has_aux=True))
        gradients, (losses, changed) = of_all(trained, frozen, buffers, *data)
        return gradients, losses, changed

    def evaluate(
        self, weights: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return losses (C, n) and outputs (C, n, …)."""
        self._module.eval()
        state = {**views(weights, self.layout.entries), **self.counters(len(weights))}
        with torch.no_grad():
            losses, outputs = vmap(self._measure)(state, inputs, targets)
        return losses, outputs

    def saved_bytes(self, inputs: torch.Tensor) -> int:
        """Return the bytes that autograd saves for one sample of a batch."""
        weights = {tensor.data_ptr() for tensor in self._module.state_dict().values()}
        sizes: list[int] = []

        def note(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.data_ptr() not in weights:
                sizes.append(tensor.nbytes)
            return tensor

        # In evaluation mode, so that running statistics do not change; it saves as much.
        module = self._module.eval()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            module(inputs)
        return sum(sizes) // len(inputs)

    def _mean_loss(
        self,
        trained: Tensors,
        frozen: Tensors,
        buffers: Tensors,
        inputs: torch.Tensor,
        targets: torch.Tensor,
    ) -> tuple[torch.Tensor, Tensors]:
        """Return one model's loss on a batch, and its buffers afterwards."""
        # Copies, because the module may write into its buffers.
        state = trained | frozen | {name: buffer.clone() for name, buffer in buffers.items()}
        outputs = read_outputs(functional_call(self._module, state, (inputs,)))
        loss = self._task.mean_loss(outputs, targets)
        return loss, {name: state[name] for name in buffers}

    def _measure(
        self, state: Tensors, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = read_outputs(functional_call(self._module, state, (inputs,)))
        return self._task.losses(outputs, targets), outputs


class StackedTraining:
    """One local training of C models together, each from its row of `weights` (C, P)."""

    def __init__(
        self,
        module: StackedModule,
        weights: torch.Tensor,
        settings: TrainingSettings,
        last_layers: int | None,
    ) -> None:
        layout = module.layout
        self._module = module
        self._weights = weights
        self._runs = layout.trainable_slices(last_layers)
        trained = [entry for entry in layout.entries if _within(entry, self._runs)]
        others = [entry for entry in layout.entries if not _within(entry, self._runs)]
        # The trained values of all models are one tensor, so that a step of the optimiser is one
        # operation. It treats each value separately, as for a single model.
        self._values = torch.cat([weights[:, run] for run in self._runs], dim=1)
        self._values.grad = torch.zeros_like(self._values)
        self._optimizer = make_optimizer(settings, [self._values])
        self._trained = views(self._values, _without_gaps(trained))
        self._float_buffers = [entry for entry in others if entry.name in module.float_buffers]
        frozen = [entry for entry in others if entry.name not in module.float_buffers]
        self._frozen = views(weights, frozen)
        self._buffers = views(weights, self._float_buffers) | module.counters(len(weights))

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Take one step on a batch, (C, n, *shape) and (C, n); return mean losses before it, (C,).

        `keys` (C, layers, 2) are for the dropout layers.
        """
        for number, name in enumerate(self._module.dropout_keys):
            self._buffers[name] = keys[:, number]
        gradients, losses, self._buffers = self._module.gradients(
            self._trained, self._frozen, self._buffers, inputs, targets
        )
        parts = [gradients[name].flatten(1) for name in self._trained]
        torch.cat(parts, dim=1, out=self._values.grad)
        self._optimizer.step()
        return losses

    def weights(self) -> torch.Tensor:
        """Return the present weights and float buffers, (C, P)."""
        start = 0
        for run in self._runs:
            stop = start + run.stop - run.start
            self._weights[:, run] = self._values[:, start:stop]
            start = stop
        for entry in self._float_buffers:
            self._weights[:, entry.start : entry.stop] = self._buffers[entry.name].flatten(1)
        return self._weights


def views(stacked: torch.Tensor, entries: Iterable[LayoutEntry]) -> Tensors:
    """Return the tensors (C, *shape) in a matrix (C, …), by name."""
    return {
        entry.name: stacked[:, entry.start : entry.stop].view(len(stacked), *entry.shape)
        for entry in entries
    }


def _within(entry: LayoutEntry, runs: Sequence[slice]) -> bool:
    return any(run.start <= entry.start and entry.stop <= run.stop for run in runs)


def _without_gaps(entries: Iterable[LayoutEntry]) -> Iterator[LayoutEntry]:
    """Yield entries with new positions, one directly after the other."""
    start = 0
    for entry in entries:
        stop = start + entry.stop - entry.start
        yield replace(entry, start=start, stop=stop)
        start = stop
