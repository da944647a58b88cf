"""Measures how fast one thread trains and evaluates an architecture, with torch and compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 — the usual name
from torch.utils.flop_counter import FlopCounterMode

from coterie.benchmarking.timing import Tick, Workload, best_rates
from coterie.data.pools import Pool, Samples
from coterie.learning.module_calls import single_threaded
from coterie.learning.native.library import Library, find_library
from coterie.learning.settings import TrainingSettings
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob, Unsupported, Workspace
from coterie.learning.trainer_choice import make_native_trainer
from coterie.models.architectures import Architecture, architecture
from coterie.models.vector import vector_of
from coterie.randomness import generator
from coterie.tasks import Task

MODELS = ("cifar-cnn", "fashion-cnn", "pens-cnn", "pacs-cnn", "mlp", "digits-cnn", "linear")
BATCH = 8
EVALUATION_BATCHES = (8, 100, 1000)
TRAIN_TORCH, TRAIN_FUSED, TRAIN_NATIVE = "train torch", "train fused", "train native"
EVALUATE_NATIVE, PEAK = "evaluate native", "peak"

Work = Callable[[], int]
"""Does some work; returns its number of samples."""


@dataclass(frozen=True)
class ModelSpeed:
    """Samples per second of CPU time, on one thread; None without compiled code.

    `multiply_adds` is the nominal number for one training sample; compiled code skips those that
    pooling and ReLU make unnecessary. `peak` is how many the processor can do per second.
    """

    name: str
    multiply_adds: int
    train_torch: float
    train_torch_fused: float
    train_native: float | None
    evaluate_torch: float
    evaluate_torch_batch: int
    evaluate_native: float | None
    peak: float | None
    why_not_native: str | None

    @property
    def share_of_peak(self) -> float | None:
        """The nominal multiply-adds of compiled training, as a share of the peak."""
        if self.train_native is None or self.peak is None:
            return None
        return self.multiply_adds * self.train_native / self.peak


def measure_model(name: str, workload: Workload, tick: Tick) -> ModelSpeed:
    """Measure an architecture on random samples."""
    model = architecture(name)
    pool = random_pool(model, max(workload.train_samples, workload.evaluate_samples))
    batches = sorted({min(size, workload.evaluate_samples) for size in EVALUATION_BATCHES})
    why_not = None
    with ExitStack() as stack:
        stack.enter_context(single_threaded())
        candidates = _torch_candidates(model, pool, workload, batches)
        try:
            candidates |= _native_candidates(model, pool, workload, stack)
        except Unsupported as reason:
            why_not = str(reason)
        rates = best_rates(candidates, workload.repeats, lambda: tick(name))
    best_batch = max(batches, key=lambda size: rates[size])
    return ModelSpeed(
        name,
        nominal_multiply_adds(model),
        train_torch=rates[TRAIN_TORCH],
        train_torch_fused=rates[TRAIN_FUSED],
        train_native=rates.get(TRAIN_NATIVE),
        evaluate_torch=rates[best_batch],
        evaluate_torch_batch=best_batch,
        evaluate_native=rates.get(EVALUATE_NATIVE),
        peak=rates.get(PEAK),
        why_not_native=why_not,
    )


def random_pool(model: Architecture, count: int) -> Pool:
    """Return random samples (count, *input_shape) with random targets."""
    rng = generator(0, "benchmark", model.name)
    inputs = rng.standard_normal((count, *model.input_shape), dtype=np.float32)
    if model.task == "classification":
        return Pool(inputs, rng.integers(0, model.default_outputs, count))
    return Pool(inputs, rng.standard_normal(count, dtype=np.float32))


def nominal_multiply_adds(model: Architecture) -> int:
    """Return the multiply-adds of torch's forward and backward pass of one sample.

    The gradient of the inputs is not needed and not included.
    """
    with FlopCounterMode(display=False) as counter:
        outputs = model.build().eval()(torch.zeros(1, *model.input_shape))
        outputs.sum().backward()
    return int(counter.get_total_flops()) // 2


def do_multiply_adds(library: Library, rounds: int) -> int:
    """Do multiply-adds as fast as the processor can; return their number."""
    half = ctypes.c_float(0.5)
    return int(library.multiply_adds(rounds, ctypes.byref(half)))


def _torch_candidates(
    model: Architecture, pool: Pool, workload: Workload, batches: list[int]
) -> dict[str | int, Work]:
    inputs, targets = torch.from_numpy(pool.inputs), torch.from_numpy(pool.targets)
    training = partial(
        torch_training, model, inputs[: workload.train_samples], targets[: workload.train_samples]
    )
    evaluation = partial(
        torch_evaluation,
        model,
        inputs[: workload.evaluate_samples],
        targets[: workload.evaluate_samples],
    )
    return {
        TRAIN_TORCH: training(fused=None),
        TRAIN_FUSED: training(fused=True),
        **{size: evaluation(size) for size in batches},
    }


def torch_training(
    model: Architecture, inputs: torch.Tensor, targets: torch.Tensor, *, fused: bool | None
) -> Work:
    """Return a usual training loop over all samples; `fused` is Adam's option."""
    module = model.build().train()
    optimizer = torch.optim.Adam(module.parameters(), fused=fused)
    loss_of = _loss(model)

    def train() -> int:
        order = torch.randperm(len(inputs))
        for start in range(0, len(inputs), BATCH):
            batch = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = loss_of(module(inputs[batch]), targets[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return len(inputs)

    return train


def torch_evaluation(
    model: Architecture, inputs: torch.Tensor, targets: torch.Tensor, batch_size: int
) -> Work:
    """Return a usual evaluation loop: the loss and the number of correct samples."""
    module = model.build().eval()
    loss_of = _loss(model)

    def evaluate() -> int:
        loss, correct = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(inputs), batch_size):
                batch = slice(start, start + batch_size)
                outputs = module(inputs[batch])
                loss += loss_of(outputs, targets[batch]).item() * len(outputs)
                if model.task == "classification":
                    correct += int((outputs.argmax(dim=1) == targets[batch]).sum())
        return len(inputs)

    return evaluate


def _loss(model: Architecture) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    if model.task == "classification":
        return F.cross_entropy
    return lambda outputs, targets: F.mse_loss(outputs.squeeze(1), targets)


def _native_candidates(
    model: Architecture, pool: Pool, workload: Workload, stack: ExitStack
) -> dict[str | int, Work]:
    """Return the work of compiled code and of the peak; raise Unsupported if there is none."""
    library = find_library()
    if isinstance(library, str):
        raise Unsupported(library)
    module = model.build()
    start = vector_of(module)
    workspace = Workspace([pool], {"models": start[np.newaxis].copy()})
    trainer = stack.enter_context(
        closing(
            make_native_trainer(
                module,
                TrainingSettings(batch_size=BATCH),
                workspace,
                Task("cross-entropy" if model.task == "classification" else "mse"),
                threads=1,
            )
        )
    )
    mine = ModelReference("models", 0)
    train = TrainJob(mine, Samples(0, 0, workload.train_samples), epochs=1, bits=0)
    evaluate = EvaluateJob(mine, Samples(0, 0, workload.evaluate_samples))

    def train_from_start() -> int:
        # From the same weights: they decide how much of the backward pass is skipped.
        workspace.model(mine)[:] = start
        trainer.train([train])
        return len(train.samples)

    def evaluate_all() -> int:
        trainer.evaluate([evaluate])
        return len(evaluate.samples)

    return {
        TRAIN_NATIVE: train_from_start,
        EVALUATE_NATIVE: evaluate_all,
        PEAK: partial(do_multiply_adds, library, workload.peak_rounds),
    }
