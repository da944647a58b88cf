"""The report of `coterie bench`: what is printed and saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from coterie.benchmarking.model_speed import BATCH, ModelSpeed
from coterie.benchmarking.round_speed import RoundSpeed
from coterie.benchmarking.timing import Workload

MISSING = "–"


@dataclass(frozen=True)
class BenchReport:
    """All measurements of one run on one machine."""

    machine: dict[str, Any]
    workload: Workload
    models: Sequence[ModelSpeed]
    round: str
    """A description of the measured round."""
    rounds: Sequence[RoundSpeed]

    def figures(self) -> dict[str, Any]:
        """Return the numbers to save; the names have the units."""
        return {
            **self.machine,
            "repeats": self.workload.repeats,
            "train_samples": self.workload.train_samples,
            "evaluate_samples": self.workload.evaluate_samples,
            **{model.name: _model_figures(model) for model in self.models},
            self.round: {_on(speed): _round_figures(speed, self.rounds) for speed in self.rounds},
        }

    def parts(self) -> Iterator[RenderableType]:
        """Yield the parts to print."""
        yield Text(self._title())
        yield _training_table(self.models)
        yield _evaluation_table(self.models)
        yield _round_table(self.round, self.rounds)
        yield Text(self._explanation(), style="dim")
        for reason, names in _reasons(self.models).items():
            yield Text(f"No compiled code for {', '.join(names)}: {reason}.")

    def _title(self) -> str:
        machine = self.machine
        level = f", compiled code of level {machine['level']}" if machine["level"] else ""
        versions = machine["versions"]
        return (
            f"{machine['cpu']}, {machine['cores']} cores{level}; torch {versions['torch']}, "
            f"Python {versions['python']}"
        )

    def _explanation(self) -> str:
        peak = max((model.peak or 0 for model in self.models), default=0)
        measured = (
            f" The measured peak is {peak / 1e9:.1f}·10⁹ multiply-adds per second. The share of it "
            "is nominal and may exceed 100%: it counts full forward and backward passes, but "
            "compiled code skips what pooling and ReLU make unnecessary."
        )
        return (
            "Training and evaluation: CPU time, on one thread. A round: CPU time of all threads, "
            "and wall time, without the initial training. Each figure is the best of "
            f"{self.workload.repeats} repeats, with all candidates in "
            f"turn.{measured if peak else ''}"
        )


def _training_table(models: Sequence[ModelSpeed]) -> Table:
    table = Table(title=f"training, samples per second, batches of {BATCH}", title_justify="left")
    table.add_column("model")
    for name in ("torch, Adam", "torch, fused Adam", "native", "÷ Adam", "÷ fused", "of the peak"):
        table.add_column(name, justify="right")
    for model in models:
        table.add_row(
            model.name,
            _count(model.train_torch),
            _count(model.train_torch_fused),
            _count(model.train_native),
            _times(model.train_native, model.train_torch),
            _times(model.train_native, model.train_torch_fused),
            _percent(model.share_of_peak),
        )
    return table


def _evaluation_table(models: Sequence[ModelSpeed]) -> Table:
    title = "evaluation, samples per second, torch at its best batch size"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    for name in ("torch", "in batches of", "native", "÷ torch"):
        table.add_column(name, justify="right")
    for model in models:
        table.add_row(
            model.name,
            _count(model.evaluate_torch),
            str(model.evaluate_torch_batch),
            _count(model.evaluate_native),
            _times(model.evaluate_native, model.evaluate_torch),
        )
    return table


def _round_table(title: str, rounds: Sequence[RoundSpeed]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("threads", justify="right")
    for name in (
        "CPU seconds per peer-round",
        "peer-rounds per second",
        "÷ one thread",
        "CPU time in compiled code",
    ):
        table.add_column(name, justify="right")
    for speed in rounds:
        table.add_row(
            str(speed.threads),
            f"{speed.cpu_seconds_per_peer_round:.4f}",
            f"{speed.peer_rounds_per_second:.1f}",
            _times(speed.peer_rounds_per_second, rounds[0].peer_rounds_per_second),
            _percent(speed.compiled_share),
        )
    return table


def _model_figures(model: ModelSpeed) -> dict[str, Any]:
    figures = {
        "train_torch_samples_per_second": round(model.train_torch),
        "train_torch_fused_samples_per_second": round(model.train_torch_fused),
        "evaluate_torch_samples_per_second": round(model.evaluate_torch),
        "evaluate_torch_batch_size": model.evaluate_torch_batch,
        "nominal_multiply_adds_per_training_sample": model.multiply_adds,
    }
    native = {
        "train_native_samples_per_second": _rounded(model.train_native),
        "train_native_times_torch": _ratio(model.train_native, model.train_torch),
        "train_native_times_torch_fused": _ratio(model.train_native, model.train_torch_fused),
        "evaluate_native_samples_per_second": _rounded(model.evaluate_native),
        "evaluate_native_times_torch": _ratio(model.evaluate_native, model.evaluate_torch),
        "peak_multiply_adds_per_second": _rounded(model.peak),
        "train_native_nominal_share_of_peak": _rounded(model.share_of_peak, 3),
        "why_not_native": model.why_not_native,
    }
    return figures | {name: value for name, value in native.items() if value is not None}


def _round_figures(speed: RoundSpeed, rounds: Sequence[RoundSpeed]) -> dict[str, float | None]:
    one = rounds[0].peer_rounds_per_second
    return {
        "cpu_seconds_per_peer_round": round(speed.cpu_seconds_per_peer_round, 5),
        "peer_rounds_per_second": round(speed.peer_rounds_per_second, 2),
        "times_one_thread": _ratio(speed.peer_rounds_per_second, one),
        "compiled_share_of_cpu_time": _rounded(speed.compiled_share, 3),
    }


def _on(speed: RoundSpeed) -> str:
    return "1 thread" if speed.threads == 1 else f"{speed.threads} threads"


def _reasons(models: Sequence[ModelSpeed]) -> dict[str, list[str]]:
    """Return the names of models without compiled code, by reason."""
    reasons: dict[str, list[str]] = {}
    for model in models:
        if model.why_not_native is not None:
            reasons.setdefault(model.why_not_native, []).append(model.name)
    return reasons


def _ratio(value: float | None, base: float) -> float | None:
    return None if value is None else round(value / base, 2)


def _rounded(value: float | None, digits: int = 0) -> float | None:
    if value is None:
        return None
    return round(value, digits) if digits else round(value)


def _count(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def _times(value: float | None, base: float) -> str:
    return MISSING if value is None else f"{value / base:.1f}×"


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.0%}"
