"""Whether a difference between strategies is more than luck: paired tests on the same seeds.

The same seed gives every strategy the same data and the same initial weights, so what is left of
the difference between two runs of one seed is due to the strategies. Within one seed the same holds
for each peer: a difference over peers says nothing about another seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from coterie.experiments.run_summary import known_mean

TEST = "two-sided paired t-test"
LEVELS = (0.001, 0.01, 0.05)
"""Below each level a difference gets one star more, from the last to the first."""
MIN_SEEDS = 2


@dataclass(frozen=True)
class Difference:
    """A strategy minus the baseline, over the seeds (or peers) that both have."""

    mean: float
    width: float
    """Half width of the 95% interval of the mean; NaN for a single pair."""
    p_value: float
    """Before correction; NaN with fewer than two pairs."""
    num_pairs: int
    corrected: float = math.nan
    """The p-value, corrected by Holm for the number of strategies that were tested."""

    @property
    def mark(self) -> str:
        """One to three stars for a difference that is hardly luck."""
        return "*" * sum(self.corrected < level for level in LEVELS)

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval leaves out 0."""
        return abs(self.mean) > self.width  # not so for NaN


def paired_difference(
    ours: Mapping[int, float], baseline: Mapping[int, float]
) -> Difference | None:
    """Return the difference of values by seed (or peer) where both have one; None if nowhere."""
    common = [
        key
        for key in ours
        if key in baseline and not math.isnan(ours[key]) and not math.isnan(baseline[key])
    ]
    if not common:
        return None
    differences = np.array([ours[key] - baseline[key] for key in common])
    return Difference(*confidence(differences), _p_value(differences), len(common))


def _p_value(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    if len(differences) < MIN_SEEDS:
        return math.nan
    if np.ptp(differences) == 0:
        # Without any spread t is ±∞, or for equal results 0/0.
        return 1.0 if differences[0] == 0 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def corrected(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    """Correct p-values by Holm: the k-th smallest of m counts (m − k + 1)-fold, in rising order."""
    tested = [label for label, each in differences.items() if not math.isnan(each.p_value)]
    tested.sort(key=lambda label: differences[label].p_value)
    found = dict(differences)
    largest = 0.0
    for rank, label in enumerate(tested):
        raised = (len(tested) - rank) * differences[label].p_value
        largest = max(largest, min(1.0, raised))
        found[label] = replace(differences[label], corrected=largest)
    return found


def confidence(values: npt.ArrayLike) -> tuple[float, float]:
    """Return mean and half width of the 95% interval (Student's t); NaN width for one value."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return known_mean(known), math.nan
    error = known.std(ddof=1) / math.sqrt(len(known))
    return known_mean(known), float(stats.t.ppf(0.975, len(known) - 1) * error)
