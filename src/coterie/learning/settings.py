"""The settings of local training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coterie.settings import Settings


class TrainingSettings(Settings):
    """How a peer trains. Each local training starts with a new optimiser."""

    learning_rate: float = Field(1e-3, gt=0)
    """The optimiser's step size."""
    epochs: int = Field(3, ge=1)
    """Passes over a peer's training data per round (E)."""
    restraint: bool | None = None
    """Whether a peer trains fewer epochs after training made its validation significantly worse.
    When not given, the strategy decides: Kin does this."""
    batch_size: int = Field(8, ge=1)
    """Samples per step; the last batch of a pass may be smaller."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """adam, adamw or sgd; other options are torch's defaults."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Only for sgd."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled for adamw, added to the gradient otherwise."""
    buffers: Literal["exchanged", "local"] = "exchanged"
    """Running statistics, such as those of batch normalisation. exchanged: sent and merged like
    weights. local: each peer keeps its own, and measures other models with them."""
    trainer: Literal["auto", "native", "torch", "batched"] = "auto"
    """native: compiled, for chains of common layers. torch: any module. batched: many peers at
    once. auto: batched on a GPU; on the CPU native if possible, otherwise torch."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; auto: on a GPU (cuda or mps) if there is one, otherwise on the CPU."""
    peers_at_once: int | None = Field(None, ge=1)
    """Only for batched: the largest number of peers at once; when not given, as many as fit."""

    @property
    def has_local_buffers(self) -> bool:
        """Whether each peer keeps its own running statistics."""
        return self.buffers == "local"
