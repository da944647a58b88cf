"""The means of a round over peers, for progress displays and loggers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.runtime.exchange_log import traffic
from coterie.runtime.round import Round
from coterie.tasks import TaskScore


@dataclass(frozen=True)
class RoundMetrics:
    """The means of a finished round over peers."""

    round: int
    score: TaskScore
    """What the task measures."""
    means: Mapping[str, float]
    """By the names of columns, such as validation_loss_trained; only what was measured. And
    models_per_peer and megabytes_per_peer: sent and received in this round."""

    @property
    def validation_score(self) -> float:
        """The mean validation score after training; NaN if no peer trained."""
        return self.means.get("validation_score_trained", math.nan)


def measure_round(now: Round, score: TaskScore) -> RoundMetrics:
    """Return the means of a round."""
    further = {f"test_{name}": values for name, values in now.metrics.items()}
    means = {name: known_mean(values) for name, values in {**now.measures, **further}.items()}
    spent = traffic(now.exchanges.columns(), max(len(now.clusters), 1))
    num_peers = len(now.online)
    models, size = (
        float(sum(spent[f"{kind}_{side}"][:num_peers].sum() for side in ("received", "sent")))
        for kind in ("models", "bytes")
    )
    return RoundMetrics(
        now.number,
        score,
        {name: mean for name, mean in means.items() if not math.isnan(mean)}
        | {"models_per_peer": models / num_peers, "megabytes_per_peer": size / num_peers / 1e6},
    )


def known_mean(values: npt.ArrayLike) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else math.nan
