"""Scikit-learn's bundled 1,797 handwritten digits: real data that needs no download."""

from __future__ import annotations

import numpy as np

from coterie.data.holdout import stratified_holdout
from coterie.data.labelled_dataset import Dataset
from coterie.randomness import generator


def read_digits() -> Dataset:
    """Return the digits, with a fixed fifth of each class for test; images (n, 1, 8, 8)."""
    from sklearn.datasets import load_digits

    bundled = load_digits()
    # The bundled grey values run from 0 to 16.
    images = np.rint(bundled.images * (255 / 16)).astype(np.uint8)[:, np.newaxis]
    labels = bundled.target.astype(np.int64)
    train, test = stratified_holdout(labels, generator(0, "digits-test"))
    return Dataset(
        name="digits",
        inputs=images[train],
        targets=labels[train],
        test_inputs=images[test],
        test_targets=labels[test],
        classes=tuple("0123456789"),
    )
