"""Who fetched whom: a matrix of peers, ordered by cluster, for each window of time."""

from __future__ import annotations

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.pairs import quantised, run_windows, times
from coterie.reports.html.views.view_parts import Json, once_per_run, packed, shown_runs

NOBODY = (
    "No model has moved between peers: the strategies here do not exchange any with each other, or "
    "no round with an exchange has been recorded yet."
)


def heatmap(subject: Subject) -> Json:
    """Return per run the matrices of its windows, packed (W, B, B); value = cell × unit."""
    return shown_runs(subject, _matrices, NOBODY)


@once_per_run
def _matrices(run: RunFolder) -> Json | None:
    found = list(run_windows(run))
    if not found:
        return None
    highest = max(window.taken.max() for window in found)
    # Whole numbers, such as how often one took from another, stay exact.
    exact = highest <= 255 and all((window.taken % 1 == 0).all() for window in found)
    matrices = [window.taken for window in found]
    cells = [each.astype(np.uint8) if exact else quantised(each, highest) for each in matrices]
    size = max(len(each) for each in cells)
    # Bins of different steps may differ in number; what is beyond them is never looked at.
    padded = [np.pad(each, (0, size - len(each))) for each in cells]
    return {
        **times(found),
        "unit": 1 if exact else float(f"{highest / 255:.4g}"),
        "cells": packed(np.stack(padded)),
        "poisoned": list(run.poisoned),
    }
