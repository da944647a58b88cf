"""The settings of poisoned peers: how many there are and what they do."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, model_validator

from coterie.settings import Settings

PoisonKind: TypeAlias = Literal[
    "none", "sign-flip", "noise", "label-flip", "stale", "delusional", "liar", "absent"
]


class PoisonSettings(Settings):
    """Hostile peers, to measure how robust a strategy is.

    Results are only of the honest peers. The seed decides which peers are poisoned, not the
    strategy. Strategies with a server cannot be poisoned.
    """

    kind: PoisonKind = "none"
    """sign-flip: publishes its model minus the change of its last training. noise: its model plus
    normal noise, as wide as the values of each tensor. label-flip: trains and validates on labels
    C−1−y (regression: −y). stale: publishes its last honest model. delusional: merges peers of
    all other true clusters. liar: reports the opposite of its measurements. absent: leaves the
    network, which shows the effect of losing data without poison."""
    share: float | None = Field(None, ge=0, le=1)
    """The share of poisoned peers, of all or of `cluster`; or:"""
    count: int | None = Field(None, ge=0)
    """their number."""
    cluster: int | None = Field(None, ge=0)
    """Only peers that begin in this true cluster are poisoned; when not given, any."""
    from_round: int = Field(1, ge=1)
    """The first round in which they are hostile."""

    @model_validator(mode="after")
    def _how_many(self) -> Self:
        if self.kind != "none" and (self.share is None) == (self.count is None):
            raise ValueError("give the number of poisoned peers, either as share or as count")
        return self
