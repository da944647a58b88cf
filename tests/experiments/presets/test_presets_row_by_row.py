"""Data, model, clusters and time of every preset, and every τ and learning rate of the thesis."""

from __future__ import annotations

import pytest

from coterie.data.drift import Drift, FedDrift2, FedDrift4, NoDrift, RandomDrift
from coterie.data.shifts import (
    DatasetShift,
    LabelShift,
    LabelSwapShift,
    NoShift,
    RandomLabelShift,
    RotationShift,
    Shift,
)
from coterie.experiments.presets import PRESETS, find_preset
from coterie.models.architectures import architecture
from coterie.models.layout import Layout

UNEVEN = RotationShift(angles=(0, 180, 10, 350))
HALVES = RotationShift(angles=(0, 180))
RESHUFFLED = RandomDrift(every=200)
USED = (0, 1, 3, 4, 5, 7, 8, 9)
"""HAST's labels."""
SWAP4 = LabelSwapShift(labels=USED, swaps=((), ((0, 1),), ((3, 4),), ((5, 7),)))
ANIMALS, VEHICLES = (2, 3, 4, 5, 6, 7), (0, 1, 8, 9)
ANIMALS_FIRST = LabelShift(groups=(ANIMALS, VEHICLES))
PAIRS = LabelShift(groups=((0, 1), (2, 3), (4, 5), (6, 7), (8, 9)))
PACS = ("pacs-photo", "pacs-art_painting", "pacs-cartoon", "pacs-sketch")
BOTH_MNISTS = ("mnist", "fashion-mnist")
PLUS_10 = DatasetShift(label_offsets=(0, 10))

Row = tuple[tuple[str, ...] | str, str, Shift, Drift]
ROWS: dict[str, Row] = {
    "dac-cifar-rotation4": (
        "cifar10", "cifar-cnn", RotationShift(angles=(0, 90, 180, 270)), NoDrift(),
    ),
    "dac-cifar-rotation-uneven": ("cifar10", "cifar-cnn", UNEVEN, NoDrift()),
    "dac-fashion-rotation-uneven": ("fashion-mnist", "fashion-cnn", UNEVEN, NoDrift()),
    "dac-cifar-labels": (
        "cifar10", "cifar-cnn", LabelShift(groups=(VEHICLES, ANIMALS)), NoDrift(),
    ),
    "hast-pacs": (PACS, "pacs-cnn", DatasetShift(), RESHUFFLED),
    "hast-cifar-labels2": (
        "cifar10", "cifar-cnn", LabelShift(groups=(VEHICLES, (3, 4, 5, 7))), RESHUFFLED,
    ),
    "hast-cifar-labels4": (
        "cifar10", "cifar-cnn", LabelShift(groups=((0, 1), (3, 4), (5, 7), (8, 9))), RESHUFFLED,
    ),
    "hast-cifar-random-labels": (
        "cifar10", "cifar-cnn", RandomLabelShift(groups=2, size=4, labels=USED), RESHUFFLED,
    ),
    "hast-cifar-iid": ("cifar10", "cifar-cnn", NoShift(), NoDrift()),
    "hast-swap2-feddrift": (
        "cifar10", "cifar-cnn", LabelSwapShift(labels=USED, swaps=((), ((0, 1),))),
        FedDrift2(every=200),
    ),
    "hast-swap4-feddrift": ("cifar10", "cifar-cnn", SWAP4, FedDrift4(every=200)),
    "hast-swap4-random": ("cifar10", "cifar-cnn", SWAP4, RESHUFFLED),
    "friends-cifar-labels2": ("cifar10", "cifar-cnn", ANIMALS_FIRST, NoDrift()),
    "friends-cifar-labels5": ("cifar10", "cifar-cnn", PAIRS, NoDrift()),
    "friends-cluster-death": ("cifar10", "cifar-cnn", ANIMALS_FIRST, NoDrift()),
    "friends-synthetic": (("linear-regression",) * 3, "linear", DatasetShift(), NoDrift()),
    "friends-fashion-rotation": ("fashion-mnist", "fashion-cnn", UNEVEN, NoDrift()),
    "friends-mnist-fashion": (BOTH_MNISTS, "fashion-cnn", PLUS_10, NoDrift()),
    "friends-mnist-fashion-mlp": (BOTH_MNISTS, "mlp", PLUS_10, NoDrift()),
    **{
        f"pens-cifar-rotation2{size}{start}": ("cifar10", "pens-cnn", HALVES, NoDrift())
        for size in ("-50", "", "-1000")
        for start in ("", "-common")
    },
    **{
        f"pens-cifar-iid{start}": ("cifar10", "pens-cnn", NoShift(), NoDrift())
        for start in ("", "-common")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_data_model_clusters_and_time(name):
    config = find_preset(name).config
    datasets, model, shift, drift = ROWS[name]
    assert config.data.datasets == ((datasets,) if isinstance(datasets, str) else datasets)
    assert (config.model.name, config.shift, config.drift) == (model, shift, drift)
    assert config.training.optimizer == ("sgd" if name == "friends-synthetic" else "adam")
    assert config.schedule == "synchronous"
    assert config.patience == (50 if name.startswith(("pens", "friends")) else None)


SUPERCLASSES = (
    {
        "aquatic_mammals", "fish", "reptiles", "insects", "large_carnivores", "medium_mammals",
        "large_omnivores_and_herbivores", "non-insect_invertebrates", "small_mammals", "people",
    },
    {
        "flowers", "food_containers", "fruit_and_vegetables", "trees",
        "large_natural_outdoor_scenes",
    },
    {
        "household_electrical_devices", "household_furniture", "large_man-made_outdoor_things",
        "vehicles_1", "vehicles_2",
    },
)  # fmt: skip


@pytest.mark.parametrize("start", ["scratch", "pretrained"])
def test_the_clusters_of_cifar100_are_these_superclasses(start):
    config = find_preset(f"friends-cifar100-{start}").config
    assert config.data.datasets == ("cifar100",)
    assert config.model.name == "resnet-18"
    assert (config.model.pretrained is not None) == (start == "pretrained")
    assert tuple(map(set, config.shift.groups)) == SUPERCLASSES


def test_every_row_is_here():
    others = ("digits", "natural", "friends-cifar100")
    papers = {name for name in PRESETS if not name.startswith(others)}
    assert set(ROWS) == papers


# inverse loss, cosine of gradients, cosine of weights, inverse distance; FedAvg and FedSim
TAUS = {
    "friends-cifar-labels2": ((10, 5), (300, 200), (200, 200), (30, 5)),
    "friends-cifar-labels5": ((5, 5), (1000, 200), (300, 200), (30, 10)),
    "friends-synthetic": ((10_000, 5_000), (140, 140), (140, 140), (19, 19)),
    "friends-fashion-rotation": ((10, 5), (2000, 300), (2000, 300), (10, 10)),
    "friends-mnist-fashion": ((1, 1), (2000, 100), (2000, 300), (30, 30)),
    "friends-mnist-fashion-mlp": ((1, 1), (2000, 100), (2000, 300), (30, 30)),
    "friends-cifar100-pretrained": ((1, 1), (30, 30), (30, 30), (30, 30)),
    "friends-cifar100-scratch": ((5, 5), (5, 5), (30, 30), (5, 5)),
}
METRICS = ("inverse-loss", "cosine-gradients", "cosine-weights", "inverse-distance")


@pytest.mark.parametrize("name", TAUS)
def test_every_tau_of_the_thesis(name):
    labels = [f"dac-{metric}{end}" for metric in METRICS for end in ("", "-fedsim")]
    strategies = [run.strategy for run in find_preset(name).runs(labels, [0], {})]
    assert [strategy["tau"] for strategy in strategies] == [t for pair in TAUS[name] for t in pair]
    assert [strategy["metric"] for strategy in strategies] == [m for m in METRICS for _ in range(2)]
    assert [strategy["merge"] for strategy in strategies] == ["fedavg", "fedsim"] * 4
    assert {strategy["unseen"] for strategy in strategies} == {"epsilon"}
    assert {strategy["fetches"] for strategy in strategies} == {4 if "rotation" in name else 5}


def test_elsewhere_peers_nobody_knows_have_a_similarity_of_zero():
    for name in ("dac-cifar-rotation4", "hast-cifar-labels2"):
        (run,) = find_preset(name).runs(["dac"], [0], {})
        assert (run.strategy["unseen"], run.strategy["tau"]) == ("zero", 30)


@pytest.mark.parametrize(("name", "alone", "together"), [
    ("friends-cifar-labels2", 1e-4, 1e-3),
    ("friends-cifar-labels5", 1e-4, 1e-3),
    ("friends-mnist-fashion", 5e-5, 1e-3),
    ("friends-mnist-fashion-mlp", 5e-5, 1e-3),
    ("friends-fashion-rotation", 5e-5, 3e-4),
    ("friends-cifar100-scratch", 1e-4, 1e-4),
    ("friends-synthetic", 2.5e-4, 1e-3),
    ("dac-cifar-rotation4", 3e-4, 3e-4),
    ("hast-pacs", 8e-5, 8e-5),
])  # fmt: skip
def test_who_trains_alone_may_have_a_learning_rate_of_its_own(name, alone, together):
    runs = find_preset(name).runs(["local", "random", "oracle"], [0], {})
    assert [run.training.learning_rate for run in runs] == [alone, together, together]


def test_the_learning_rates_of_synthetic_regression_go_by_metric():
    labels = [f"dac-{metric}{end}" for metric in METRICS for end in ("", "-fedsim")]
    rates = [
        run.training.learning_rate for run in find_preset("friends-synthetic").runs(labels, [0], {})
    ]
    assert rates == [0.008, 0.008, 0.003, 0.003, 0.003, 0.003, 0.008, 0.008]


def test_the_epsilons_of_greedy_and_the_scopes_of_central():
    labels = ["epsilon-greedy-0.5", "epsilon-greedy-1-0.99", "epsilon-greedy-0.2", "greedy"]
    strategies = [run.strategy for run in find_preset("pens-cifar-rotation2").runs(labels, [0], {})]
    options = [(each["name"], each["epsilon"], each["decay"]) for each in strategies]
    assert options == [
        ("greedy", 0.5, 1.0), ("greedy", 1.0, 0.99), ("greedy", 0.2, 1.0), ("greedy", 0.0, 1.0),
    ]  # fmt: skip
    assert {each["metric"] for each in strategies} == {"accuracy"}
    central = find_preset("pens-cifar-rotation2").runs(["central-cluster", "central-all"], [0], {})
    assert [run.strategy["scope"] for run in central] == ["cluster", "all"]


def test_one_five_or_twenty_five_of_the_animals_are_delusional_from_round_50_on():
    labels = ["delusional-1", "delusional-5", "delusional-25"]
    strategies = [
        run.strategy for run in find_preset("friends-cluster-death").runs(labels, [0], {})
    ]
    assert [each["delusional"] for each in strategies] == [1, 5, 25]
    assert {(each["cluster"], each["from_round"], each["fetches"]) for each in strategies} == {
        (0, 50, 5)
    }


def test_the_classifier_that_hast_merges_is_three_of_five_layers():
    for name in ("cifar-cnn", "pacs-cnn"):
        layout = Layout.of(architecture(name).build())
        assert layout.classifier_depth == 3
    (run,) = find_preset("hast-cifar-labels2").runs(["hast"], [0], {})
    assert run.strategy["depth"] == "classifier"
