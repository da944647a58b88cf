"""Training with fine-tuning (HAST, step 3), which any strategy may use."""

from __future__ import annotations

from coterie.strategies.requests import Depth, Plan, Train


def train(*, finetune: bool, depth: Depth) -> Plan:
    """Train all layers; then the last ones alone."""
    yield Train()
    if finetune:
        yield finetuning(depth)


def finetuning(depth: Depth) -> Train:
    """Return a training of the last layers, kept only if the validation loss falls."""
    return Train(last_layers=depth, only_if_better=True)
