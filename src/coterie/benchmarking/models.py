"""How fast one thread trains and evaluates an architecture: torch's plain loop, compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 — the name everybody knows it by
from torch.utils.flop_counter import FlopCounterMode

from coterie.benchmarking.timing import Effort, Tick, best_rates
from coterie.data.pools import Pool, Samples
from coterie.learning.choice import native_trainer
from coterie.learning.native.library import Library, find_library
from coterie.learning.settings import TrainingSettings
from coterie.learning.torch_trainer import single_threaded
from coterie.learning.trainer import EvaluateJob, ModelReference, TrainJob, Unsupported, Workspace
from coterie.models.architectures import Architecture, architecture
from coterie.models.vector import vector_of
from coterie.randomness import generator

MODELS = ("cifar-cnn", "fashion-cnn", "pens-cnn", "pacs-cnn", "mlp", "digits-cnn", "linear")
BATCH = 8
EVALUATION_BATCHES = (8, 100, 1000)
TRAIN_TORCH, TRAIN_FUSED, TRAIN_NATIVE = "train torch", "train fused", "train native"
EVALUATE_NATIVE, PEAK = "evaluate native", "peak"

Work = Callable[[], int]
"""Does something and returns to how many samples."""


@dataclass(frozen=True)
class ModelSpeed:
    """Samples per second of CPU time, on one thread; None where compiled code is not to be had.

    `multiply_adds` are those of one training sample, dense and nominal: compiled code leaves out
    what pooling and ReLU drop anyway. `peak` is how many this level of processor can do per second.
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
        """Nominal multiply-adds of compiled training, as a share of the peak."""
        if self.train_native is None or self.peak is None:
            return None
        return self.multiply_adds * self.train_native / self.peak


def measure_model(name: str, effort: Effort, tick: Tick) -> ModelSpeed:
    """Measure an architecture on made-up samples."""
    model = architecture(name)
    pool = made_up_pool(model, max(effort.train_samples, effort.evaluate_samples))
    batches = sorted({min(size, effort.evaluate_samples) for size in EVALUATION_BATCHES})
    why_not = None
    with ExitStack() as stack:
        stack.enter_context(single_threaded())
        sides = _torch_sides(model, pool, effort, batches)
        try:
            sides |= _native_sides(model, pool, effort, stack)
        except Unsupported as reason:
            why_not = str(reason)
        rates = best_rates(sides, effort.repeats, lambda: tick(name))
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


def made_up_pool(model: Architecture, count: int) -> Pool:
    """Return random samples (count, *input_shape) with random targets."""
    rng = generator(0, "benchmark", model.name)
    inputs = rng.standard_normal((count, *model.input_shape), dtype=np.float32)
    if model.task == "classification":
        return Pool(inputs, rng.integers(0, model.default_outputs, count))
    return Pool(inputs, rng.standard_normal(count, dtype=np.float32))


def nominal_multiply_adds(model: Architecture) -> int:
    """Return the multiply-adds of one sample's dense forward and backward pass, as torch does it.

    There is no gradient of the inputs among them, which nobody needs.
    """
    with FlopCounterMode(display=False) as counter:
        outputs = model.build().eval()(torch.zeros(1, *model.input_shape))
        outputs.sum().backward()
    return int(counter.get_total_flops()) // 2


def do_multiply_adds(library: Library, rounds: int) -> int:
    """Do multiply-adds as fast as this level of processor can; return how many."""
    half = ctypes.c_float(0.5)
    return int(library.multiply_adds(rounds, ctypes.byref(half)))


def _torch_sides(
    model: Architecture, pool: Pool, effort: Effort, batches: list[int]
) -> dict[str | int, Work]:
    inputs, targets = torch.from_numpy(pool.inputs), torch.from_numpy(pool.targets)
    training = partial(
        torch_training, model, inputs[: effort.train_samples], targets[: effort.train_samples]
    )
    evaluation = partial(
        torch_evaluation,
        model,
        inputs[: effort.evaluate_samples],
        targets[: effort.evaluate_samples],
    )
    return {
        TRAIN_TORCH: training(fused=None),
        TRAIN_FUSED: training(fused=True),
        **{size: evaluation(size) for size in batches},
    }


def torch_training(
    model: Architecture, inputs: torch.Tensor, targets: torch.Tensor, *, fused: bool | None
) -> Work:
    """Return the loop everybody writes, over all samples; `fused` is Adam's option."""
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
    """Return the loop everybody writes: the loss, and how many samples are classified correctly."""
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


def _native_sides(
    model: Architecture, pool: Pool, effort: Effort, stack: ExitStack
) -> dict[str | int, Work]:
    """Return what compiled code does of it, and the peak to measure that by; raise Unsupported."""
    library = find_library()
    if isinstance(library, str):
        raise Unsupported(library)
    module = model.build()
    start = vector_of(module)
    workspace = Workspace([pool], {"models": start[np.newaxis].copy()})
    trainer = stack.enter_context(
        closing(
            native_trainer(
                module,
                TrainingSettings(batch_size=BATCH),
                workspace,
                threads=1,
                is_classification=model.task == "classification",
            )
        )
    )
    mine = ModelReference("models", 0)
    train = TrainJob(mine, Samples(0, 0, effort.train_samples), epochs=1, bits=0)
    evaluate = EvaluateJob(mine, Samples(0, 0, effort.evaluate_samples))

    def train_anew() -> int:
        # From the start again: how much of the backward pass is skipped depends on the model.
        workspace.model(mine)[:] = start
        trainer.train([train])
        return len(train.samples)

    def evaluate_whole() -> int:
        trainer.evaluate([evaluate])
        return len(evaluate.samples)

    return {
        TRAIN_NATIVE: train_anew,
        EVALUATE_NATIVE: evaluate_whole,
        PEAK: partial(do_multiply_adds, library, effort.peak_rounds),
    }
