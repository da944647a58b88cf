"""Local training, with or without fine-tuning of the last layers (HAST, step 3)."""

from __future__ import annotations

from coterie.strategies.requests import Depth, Plan, Train


def train(*, finetune: bool, depth: Depth) -> Plan:
    """Train all layers; then fine-tune the last layers, if asked to.

    Parameters
    ----------
    finetune
        Whether to fine-tune.
    depth
        How many of the last layers are fine-tuned: a number, or "classifier".

    Examples
    --------
    >>> [request.last_layers for request in train(finetune=True, depth=2)]
    [None, 2]
    """
    yield Train()
    if finetune:
        yield finetuning(depth)


def finetuning(depth: Depth) -> Train:
    """Return a training of the last layers only, kept only if the validation loss falls.

    Parameters
    ----------
    depth
        How many of the last layers: a number, or "classifier".

    Examples
    --------
    >>> finetuning("classifier").only_if_better
    True
    """
    return Train(last_layers=depth, only_if_better=True)
