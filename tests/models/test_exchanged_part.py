"""What peers exchange of a model: all of its vector, or all but its buffers."""

import numpy as np
from torch import nn

from coterie.models.exchanged_part import ExchangedPart
from coterie.models.layout import Layout

NORMALISED = Layout.of(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)))


def test_all_of_a_model_is_exchanged_without_a_copy():
    part, model = (
        ExchangedPart(NORMALISED, has_local_buffers=False),
        np.arange(17, dtype=np.float32),
    )
    assert part.is_whole
    assert part.layout is NORMALISED
    assert part.slices(1) == NORMALISED.last_layers(1)
    assert part.take(model) is model
    assert part.fill(model, np.zeros_like(model)) is model


def test_local_buffers_are_left_out_and_filled_in_by_the_receiver():
    part = ExchangedPart(NORMALISED, has_local_buffers=True)
    model = np.arange(17, dtype=np.float32)
    assert not part.is_whole
    assert part.slices() == (slice(0, 10), slice(14, 17))
    assert part.slices(1) == (slice(14, 17),)
    sent = part.take(model)
    np.testing.assert_array_equal(sent, [*range(10), 14, 15, 16])
    own = np.full(17, -1, np.float32)
    filled = part.fill(sent, own)
    np.testing.assert_array_equal(filled, [*range(10), -1, -1, -1, -1, 14, 15, 16])
    assert (own == -1).all()


def test_what_is_sent_has_a_layout_of_its_own():
    layout = ExchangedPart(NORMALISED, has_local_buffers=True).layout
    assert layout.size == 13
    assert layout.num_bytes == 52
    assert [entry.start for entry in layout.entries] == [0, 4, 6, 8, 10, 12]
    assert layout.fingerprint != NORMALISED.fingerprint


def test_a_model_without_buffers_is_exchanged_whole():
    layout = Layout.of(nn.Linear(2, 2))
    assert ExchangedPart(layout, has_local_buffers=True).layout is layout
    assert ExchangedPart(layout, has_local_buffers=True).is_whole
