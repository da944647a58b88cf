"""Dropout of peers trained at once: random numbers of their own for each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from batched_bench import PEERS, Group
from torch_bench import dropping

from coterie.data.pools import Samples
from coterie.learning.keyed_dropout import KeyedDropout
from coterie.learning.stacked_module import StackedTraining
from coterie.learning.trainer import ModelReference, TrainJob


def test_dropout_follows_from_the_bits_of_a_job_alone():
    together, alone = Group(dropping), Group(dropping)
    before = torch.get_rng_state()
    losses = together.train()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # whatever else torch draws
    job = TrainJob(ModelReference("current", 3), Samples(0, 30, 40), 2, 103)
    assert alone.trainer.train([job])[0] == pytest.approx(losses[3], rel=1e-5)
    np.testing.assert_allclose(alone.models[3], together.models[3], atol=1e-5)
    other = TrainJob(ModelReference("current", 4), Samples(0, 30, 40), 2, 104)
    alone.models[4] = alone.start[3]
    assert abs(alone.trainer.train([other])[0] - losses[3]) > 1e-4


def test_dropout_has_another_key_in_every_step_and_for_every_peer(monkeypatch):
    seen, right = [], StackedTraining.step

    def step(self, inputs, targets, keys):
        seen.extend(tuple(key) for key in keys[:, 0].tolist())
        return right(self, inputs, targets, keys)

    group = Group(dropping)
    monkeypatch.setattr(StackedTraining, "step", step)
    group.train(epochs=3)
    assert len(seen) == len(set(seen)) == PEERS * 3 * 3
    assert all(0 <= word < 2**32 for key in seen for word in key)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_keyed_dropout_keeps_its_share_and_the_mean(probability):
    layer, ones = KeyedDropout(probability), torch.ones(200, 500)
    assert torch.equal(layer.eval()(ones), ones)
    dropped = layer.train()(ones)
    share = (dropped == 0).double()
    assert abs(share.mean().item() - probability) < 0.01
    if 0 < probability < 1:
        # Rows and columns are alike, and another key gives another mask.
        assert (share.mean(dim=0) - probability).abs().max() < 0.2
        assert (share.mean(dim=1) - probability).abs().max() < 0.12
        assert dropped.max().item() == pytest.approx(1 / (1 - probability))
        masks = [share]
        for key in ([1, 0], [0, 1], [2**32 - 1, 0]):
            layer.key = torch.tensor(key)
            masks.append((layer(ones) == 0).double())
        agreement = probability**2 + (1 - probability) ** 2
        for number, one in enumerate(masks):
            for other in masks[:number]:
                assert abs((one == other).double().mean().item() - agreement) < 0.01
