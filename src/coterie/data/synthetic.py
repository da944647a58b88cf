"""Random data with a known solution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.data.labelled_dataset import Dataset
from coterie.errors import ConfigError
from coterie.randomness import generator

Samples = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]

_BOUND = 10.0


def linear_regression(
    cluster: int,
    seed: int,
    num_train: int,
    num_test: int,
    *,
    noise: float = 3.0,
    dimension: int = 10,
) -> Dataset:
    """Draw y = ⟨x, θ⟩ + ε with one θ per (seed, cluster); inputs (n, dimension), targets (n,)."""
    if min(num_train, num_test, dimension) < 1 or noise < 0:
        raise ConfigError(
            f"Linear regression is impossible with {num_train} training samples, {num_test} test "
            f"samples, dimension {dimension} and noise {noise}. The first three must be at least "
            "1, and the noise at least 0."
        )
    parameters = linear_parameters(cluster, seed, dimension)

    def draw(part: str, count: int) -> Samples:
        random = generator(seed, f"linear-{part}", cluster)
        inputs = random.uniform(-_BOUND, _BOUND, (count, dimension))
        targets = inputs @ parameters + random.normal(0.0, noise, count)
        return inputs.astype(np.float32), targets.astype(np.float32)

    inputs, targets = draw("train", num_train)
    test_inputs, test_targets = draw("test", num_test)
    return Dataset(f"linear-{cluster}", inputs, targets, test_inputs, test_targets)


def linear_parameters(cluster: int, seed: int, dimension: int = 10) -> npt.NDArray[np.float64]:
    """Return the true θ of a cluster, uniform in (−10, 10); (dimension,)."""
    return generator(seed, "linear-parameters", cluster).uniform(-_BOUND, _BOUND, dimension)
