"""Which peers a strategy helps and which it harms: a paired test for each peer over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from coterie.tasks import TaskScore

LEVEL = 0.05
"""A difference is significant if its two-sided p-value is below."""
FEWEST_SEEDS = 3
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PeerGains:
    """How many peers are significantly better or worse with a strategy than with another one."""

    num_peers: int
    num_better: int
    num_worse: int
    mean: float
    """The mean gain over peers and seeds; positive is better."""

    @property
    def share_worse(self) -> float:
        """The share of peers that are significantly worse."""
        return self.num_worse / self.num_peers


def compare_each_peer(ours: Values, theirs: Values, score: TaskScore) -> PeerGains:
    """Compare the scores of each peer, (seeds, K) each, by a two-sided paired t-test over seeds.

    Peers without a score in some seed are left out.
    """
    gains = score.sign * (ours - theirs)
    gains = gains[:, ~np.isnan(gains).any(axis=0)]
    worse, better = (_is_significant(sign * gains) for sign in (-1.0, 1.0))
    return PeerGains(
        gains.shape[1],
        int(better.sum()),
        int(worse.sum()),
        float(gains.mean()) if gains.size else 0.0,
    )


def _is_significant(gains: Values) -> npt.NDArray[np.bool_]:
    """Return which peers gain significantly, (K,)."""
    if len(gains) < FEWEST_SEEDS:
        return np.zeros(gains.shape[1], np.bool_)
    means, is_constant = gains.mean(axis=0), np.ptp(gains, axis=0) == 0
    # Without variance t is infinite: any gain is significant, and none is not.
    is_significant = is_constant.copy()
    varying = gains[:, ~is_constant]
    if varying.size:
        p_values = stats.ttest_1samp(varying, 0.0, axis=0).pvalue
        is_significant[~is_constant] = p_values < LEVEL
    return np.asarray((means > 0) & is_significant)
