"""Training with fine-tuning (HAST, step 3), which any strategy may use."""

from __future__ import annotations

from coterie.strategies.base import Depth, Plan, Train


def train(*, finetune: bool, depth: Depth, restrained: bool = False) -> Plan:
    """Train all layers; then the classifier alone, kept only if the validation loss falls."""
    yield Train(restrained=restrained)
    if finetune:
        yield Train(last_layers=depth, only_if_better=True)
