"""Views of samples in a pool."""

import numpy as np
import pytest

from coterie.data.pools import Samples


@pytest.mark.parametrize("chosen", [None, np.array([14, 11, 17, 12])])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 100])
def test_the_first_samples_are_those_that_come_first(chosen, count):
    samples = Samples(2, 11, 15, chosen)
    first = samples.first(count)
    np.testing.assert_array_equal(first.rows(), samples.rows()[:count])
    assert len(first) == min(count, 4)
    assert first.pool == 2
    assert len(samples) == 4, "the view it was taken of stays as it is"
