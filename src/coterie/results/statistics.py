"""Paired tests on the same seeds: is a difference between strategies significant?

With the same seed all strategies have the same data and the same initial weights, so differences
between two runs of one seed come from the strategies. Within one seed this holds for each peer too,
but a difference over peers of one seed says nothing about another seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from coterie.runtime.round_metrics import known_mean

TEST = "two-sided paired t-test"
LEVELS = (0.001, 0.01, 0.05)
"""A difference gets one star for each level that its p-value is below."""
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
    corrected_p_value: float = math.nan
    """The p-value after Holm's correction for the number of tested strategies."""

    @property
    def mark(self) -> str:
        """One to three stars for a significant difference; else empty."""
        return "*" * sum(self.corrected_p_value < level for level in LEVELS)

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval excludes 0."""
        return abs(self.mean) > self.width  # False for NaN


def paired_difference(
    ours: Mapping[int, float], baseline: Mapping[int, float]
) -> Difference | None:
    """Return the difference over the common seeds (or peers); None if there are none."""
    common = [
        key
        for key in ours
        if key in baseline and not math.isnan(ours[key]) and not math.isnan(baseline[key])
    ]
    if not common:
        return None
    differences = np.array([ours[key] - baseline[key] for key in common])
    return Difference(*confidence_interval(differences), _p_value(differences), len(common))


def _p_value(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    if len(differences) < MIN_SEEDS:
        return math.nan
    if np.ptp(differences) == 0:
        # Without variance t is ±∞, or 0/0 for equal results.
        return 1.0 if differences[0] == 0 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def correct_p_values(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    """Correct p-values by Holm: the k-th smallest of m is multiplied by (m − k + 1)."""
    tested = [label for label, each in differences.items() if not math.isnan(each.p_value)]
    tested.sort(key=lambda label: differences[label].p_value)
    found = dict(differences)
    largest = 0.0
    for rank, label in enumerate(tested):
        raised = (len(tested) - rank) * differences[label].p_value
        largest = max(largest, min(1.0, raised))
        found[label] = replace(differences[label], corrected_p_value=largest)
    return found


def confidence_interval(values: npt.ArrayLike) -> tuple[float, float]:
    """Return the mean and half width of its 95% interval (Student's t); NaN for one value."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return known_mean(known), math.nan
    error = known.std(ddof=1) / math.sqrt(len(known))
    return known_mean(known), float(stats.t.ppf(0.975, len(known) - 1) * error)
