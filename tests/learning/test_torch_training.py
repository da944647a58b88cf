"""Training with torch against loops written by hand: losses, optimisers, layers, divergence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_runs import small_module as plain
from torch import nn
from torch_bench import Bench, deep, normalised, regressing

from coterie.errors import ConfigError


def test_the_training_loss_is_the_mean_over_samples_not_over_batches():
    """Ten samples in batches of 4, 4 and 2; a rate so small that no weight changes."""
    bench = Bench(batch_size=4, optimizer="sgd", learning_rate=1e-30)
    loss = bench.train()
    assert bench.models[0].tobytes() == bench.start.tobytes()
    assert [len(batch) for batch in bench.batches] == [4, 4, 2]
    module = bench.module().module
    with torch.no_grad():
        each = [bench.loss(module(batch), bench.targets_of(batch)) for batch in bench.batches]
    assert loss == pytest.approx(torch.cat(each).double().mean().item(), rel=1e-6)
    of_batch_means = float(np.mean([losses.mean().item() for losses in each]))
    assert abs(loss - of_batch_means) > 1e-3


def test_the_training_loss_is_that_of_the_last_epoch():
    bench = Bench(batch_size=4, optimizer="sgd", learning_rate=0.2)
    loss = bench.train(epochs=3)
    _, losses = bench.by_hand(torch.optim.SGD, bench.batches, lr=0.2)
    assert len(losses) == 30
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-5)
    assert abs(loss - np.mean(losses)) > 1e-2


OPTIMIZERS = {
    "sgd": ({"optimizer": "sgd"}, torch.optim.SGD, {}),
    "sgd with momentum": (
        {"optimizer": "sgd", "momentum": 0.9},
        torch.optim.SGD,
        {"momentum": 0.9},
    ),
    "sgd with decay": (
        {"optimizer": "sgd", "weight_decay": 0.1},
        torch.optim.SGD,
        {"weight_decay": 0.1},
    ),
    "adam": ({"optimizer": "adam"}, torch.optim.Adam, {}),
    "adam with decay": (
        {"optimizer": "adam", "weight_decay": 0.1},
        torch.optim.Adam,
        {"weight_decay": 0.1},
    ),
    "adamw": ({"optimizer": "adamw"}, torch.optim.AdamW, {"weight_decay": 0.0}),
    "adamw with decay": (
        {"optimizer": "adamw", "weight_decay": 0.1},
        torch.optim.AdamW,
        {"weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("build", [deep, normalised])
def test_optimisers_do_what_a_loop_by_hand_does(name, build):
    settings, optimizer, options = OPTIMIZERS[name]
    bench = Bench(build, batch_size=4, learning_rate=0.02, **settings)
    loss = bench.train(epochs=4)
    assert len(bench.batches) == 12
    expected, losses = bench.by_hand(optimizer, bench.batches, lr=0.02, **options)
    np.testing.assert_allclose(bench.models[0], expected, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-4)
    assert np.abs(bench.models[0] - bench.start).max() > 0.01


def test_the_optimisers_differ():
    """Otherwise the test above could not tell them apart."""
    trained = set()
    for settings, _, _ in OPTIMIZERS.values():
        bench = Bench(deep, batch_size=4, learning_rate=0.02, **settings)
        bench.train(epochs=4)
        trained.add(np.round(bench.models[0], 3).tobytes())
    # Without decay, AdamW is Adam.
    assert len(trained) == len(OPTIMIZERS) - 1


@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adamw"}],
)
def test_every_training_starts_with_a_fresh_optimiser(settings):
    """Two trainings of one epoch are two short loops, one of two epochs is one long loop."""
    name = "sgd with momentum" if "momentum" in settings else settings["optimizer"]
    _, optimizer, options = OPTIMIZERS[name]
    twice = Bench(deep, batch_size=10, learning_rate=0.05, **settings)
    twice.train(epochs=1, bits=1)
    twice.train(epochs=1, bits=2)
    once = Bench(deep, batch_size=10, learning_rate=0.05, **settings)
    once.train(epochs=2)
    assert np.abs(twice.models[0] - once.models[0]).max() > 1e-3
    long, _ = once.by_hand(optimizer, once.batches, lr=0.05, **options)
    np.testing.assert_allclose(once.models[0], long, rtol=1e-4, atol=1e-5)
    short = Bench(deep)
    for batch in twice.batches:
        short.start, _ = short.by_hand(optimizer, [batch], lr=0.05, **options)
    np.testing.assert_allclose(twice.models[0], short.start, rtol=1e-4, atol=1e-5)


def test_batch_normalisation_trains_its_statistics():
    bench = Bench(normalised, batch_size=10)
    bench.train()
    expected = bench.module().module.train()
    expected(bench.batches[0])
    flat = bench.module(bench.models[0])
    np.testing.assert_allclose(
        flat.module[1].running_mean.numpy(), expected[1].running_mean.numpy(), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        flat.module[1].running_var.numpy(), expected[1].running_var.numpy(), rtol=1e-5
    )


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "adam"}, {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd"}],
)
def test_training_the_last_layers_leaves_the_others_bit_for_bit(depth, settings):
    bench = Bench(deep, batch_size=4, learning_rate=0.02, **settings)
    (head,) = bench.trainer.layout.last_layers(depth)
    bench.train(epochs=3, last_layers=depth)
    assert bench.models[0][: head.start].tobytes() == bench.start[: head.start].tobytes()
    changed = bench.models[0][head] != bench.start[head]
    assert changed.mean() > 0.9


def test_the_last_layers_are_trained_as_with_a_frozen_body_by_hand():
    bench = Bench(deep, batch_size=4, learning_rate=0.02, optimizer="sgd")
    bench.train(epochs=3, last_layers=1)
    module = bench.module().module
    steps = torch.optim.SGD(module[4].parameters(), lr=0.02)
    for batch in bench.batches:
        steps.zero_grad()
        bench.loss(module(batch), bench.targets_of(batch)).mean().backward()
        steps.step()
    head = bench.module(bench.models[0]).module[4]
    for mine, theirs in zip(head.parameters(), module[4].parameters(), strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-6
        )


def test_after_the_last_layers_everything_can_be_trained_again():
    bench, fresh = Bench(deep, batch_size=4), Bench(deep, batch_size=4)
    bench.train(1, last_layers=1)
    bench.train(0, epochs=2)
    fresh.train(0, epochs=2)
    assert bench.models[0].tobytes() == fresh.models[0].tobytes()


def test_training_the_last_layers_leaves_the_statistics_of_the_others_alone():
    """The running means of batch normalisation belong to the layers that are not trained."""
    bench = Bench(normalised, batch_size=5)
    (head,) = bench.trainer.layout.last_layers(1)
    bench.train(epochs=2, last_layers=1)
    assert bench.models[0][: head.start].tobytes() == bench.start[: head.start].tobytes()
    assert bench.models[0][head].tobytes() != bench.start[head].tobytes()


def test_parameters_the_module_froze_itself_stay_as_they_are():
    modules = []

    def frozen() -> nn.Module:
        module = deep()
        module[0].requires_grad_(False)
        modules.append(module)
        return module

    bench = Bench(frozen, batch_size=4, optimizer="adamw", weight_decay=0.5, learning_rate=0.1)
    (trained,) = [module for module in modules if module[2].weight.grad is not None]
    before = trained[0].weight.clone()
    bench.train(epochs=3)
    assert bench.trainer.layout.entries[0].name.endswith("2.weight")
    assert torch.equal(trained[0].weight, before)
    assert trained[0].weight.grad is None
    assert (bench.models[0] != bench.start).all()


def test_more_last_layers_than_there_are_cannot_be_trained():
    with pytest.raises(ConfigError, match="3 layers"):
        Bench(deep).train(last_layers=4)


@pytest.mark.parametrize("build", [plain, normalised])
def test_training_that_leaves_the_finite_numbers_gives_nan(build):
    bench = Bench(build, batch_size=4, optimizer="sgd", learning_rate=1e38)
    assert np.isnan(bench.train(epochs=3))
    assert not np.isfinite(bench.models[0]).all()


def test_a_last_step_that_breaks_the_weights_is_noticed():
    """The loss is measured before the step, so it is still finite."""
    bench = Bench(regressing, regression=True, batch_size=10, optimizer="sgd", learning_rate=1e38)
    bench.pools[0].targets[:] = 1e4
    assert np.isfinite(bench.evaluate().loss)
    assert np.isnan(bench.train(epochs=1))


@pytest.mark.parametrize("batch_size", [1, 3, 4, 10])
def test_regression_is_trained_like_by_hand(batch_size):
    bench = Bench(
        regressing, regression=True, batch_size=batch_size, optimizer="sgd", learning_rate=0.01
    )
    loss = bench.train(epochs=2)
    expected, losses = bench.by_hand(torch.optim.SGD, bench.batches, lr=0.01)
    np.testing.assert_allclose(bench.models[0], expected, rtol=1e-4, atol=1e-6)
    assert loss == pytest.approx(np.mean(losses[-10:]), rel=1e-4)
