"""Adapters of the library peft need nothing special: what requires a gradient is exchanged."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import coterie

peft = pytest.importorskip("peft")

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(0)
    BACKBONE = nn.Sequential(
        nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 3)
    )


def build() -> nn.Module:
    """Return the backbone with adapters of rank 2 and a trained head."""
    settings = peft.LoraConfig(r=2, target_modules=["2"], modules_to_save=["4"], lora_dropout=0.1)
    return peft.get_peft_model(copy.deepcopy(BACKBONE), settings)


def data(peer: int) -> coterie.PeerData:
    rng = np.random.default_rng(peer)
    inputs = rng.normal(size=(60, 6)).astype(np.float32)
    targets = (inputs[:, :3].argmax(axis=1) + peer % 2) % 3
    return coterie.PeerData(*[(inputs[n::3], targets[n::3]) for n in range(3)])


@pytest.mark.parametrize("trainer", ["torch", "batched"])
def test_only_adapters_and_head_are_exchanged(trainer):
    training = {"trainer": trainer, "learning_rate": 0.01, "epochs": 5}
    settings = {"rounds": 5, "training": training}
    result = coterie.simulate(build, map(data, range(4)), "dac", settings, threads=1)
    assert result.layout.size == 2 * 64 + 64 * 2 + 64 * 3 + 3
    assert result.layout.classifier_depth == 1
    assert all("lora" in e.name or "modules_to_save" in e.name for e in result.layout.entries)
    assert set(result.exchanges["bytes"].to_pylist()) <= {
        result.layout.num_bytes + extra for extra in range(0, 200)
    }
    assert result.test_score.mean() > 0.5


def test_threads_change_no_bit():
    settings = {"rounds": 2, "training": {"trainer": "torch", "epochs": 1}}
    one, two = (
        coterie.simulate(build, map(data, range(4)), "dac", settings, threads=threads)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.models, two.models)


def test_a_trained_model_is_loaded_around_its_backbone():
    settings = {"rounds": 1, "training": {"trainer": "torch"}}
    result = coterie.simulate(build, map(data, range(4)), "dac", settings, threads=1)
    module = result.load_into(build(), 0)
    kept = dict(module.named_parameters())["base_model.model.2.base_layer.weight"]
    assert torch.equal(kept, BACKBONE[2].weight)
    other = build()
    with torch.no_grad():
        dict(other.named_parameters())["base_model.model.2.base_layer.weight"].add_(1)
    with pytest.warns(UserWarning, match="frozen parameters of this module are not those"):
        result.load_into(other, 0)
