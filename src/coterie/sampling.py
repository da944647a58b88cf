"""Choosing peers at random."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def uniform(
    rng: np.random.Generator, candidates: npt.NDArray[np.int64], count: int
) -> tuple[int, ...]:
    """Draw `count` distinct candidates uniformly; all of them where there are fewer."""
    chosen = rng.choice(candidates, size=min(count, len(candidates)), replace=False)
    return tuple(int(peer) for peer in chosen)
