"""Which peer fetched which model: a matrix of peers, ordered by cluster, per window of rounds."""

from __future__ import annotations

import numpy as np

from coterie.experiments.run_folder import RunFolder
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.fetch_windows import describe_windows, quantise, read_windows
from coterie.reports.html.views.view_parts import Json, build_pictures, cache_per_run, pack_array

NO_EXCHANGES = (
    "No peer has received another peer's model. These strategies do not exchange models between "
    "peers, or no round with an exchange has been recorded yet."
)


def build_heatmap(group: RunGroup) -> Json:
    """Return per run the matrices of its windows, packed (W, B, B). A value is cell × unit."""
    return build_pictures(group, _matrices, NO_EXCHANGES)


@cache_per_run
def _matrices(run: RunFolder) -> Json | None:
    windows = list(read_windows(run))
    if not windows:
        return None
    highest = max(window.fetched.max() for window in windows)
    # Whole numbers, such as counts of fetches, stay exact.
    exact = highest <= 255 and all((window.fetched % 1 == 0).all() for window in windows)
    matrices = [window.fetched for window in windows]
    cells = [each.astype(np.uint8) if exact else quantise(each, highest) for each in matrices]
    size = max(len(each) for each in cells)
    # Steps may have different numbers of bins; the page ignores the padding.
    padded = [np.pad(each, (0, size - len(each))) for each in cells]
    return {
        **describe_windows(windows),
        "unit": 1 if exact else float(f"{highest / 255:.4g}"),
        "cells": pack_array(np.stack(padded)),
        "poisoned": list(run.poisoned),
    }
