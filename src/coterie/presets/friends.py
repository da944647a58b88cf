"""Presets of the comparative thesis on similarity metrics (Hagander & Ihre-Thomason 2024)."""

from __future__ import annotations

from coterie.config import LINEAR, DataSettings, ModelSettings, RunConfig
from coterie.data.scenario import PeerSettings
from coterie.data.shifts import DatasetShift, RotationShift, SuperclassShift
from coterie.learning.trainer import TrainingSettings
from coterie.presets.base import Preset, Variant, bare, baselines

FETCHES = 5

_SUPERCLASSES = (
    (
        "aquatic_mammals", "fish", "reptiles", "insects", "large_carnivores",
        "large_omnivores_and_herbivores", "medium_mammals", "non-insect_invertebrates",
        "small_mammals", "people",
    ),
    (
        "flowers", "food_containers", "fruit_and_vegetables", "trees",
        "large_natural_outdoor_scenes",
    ),
    (
        "household_electrical_devices", "household_furniture", "large_man-made_outdoor_things",
        "vehicles_1", "vehicles_2",
    ),
)  # fmt: skip

_mnist_fashion = RunConfig(
    preset="friends-mnist-fashion",
    data=DataSettings(datasets=("mnist", "fashion-mnist")),
    shift=DatasetShift(label_offsets=(0, 10)),
    peers=PeerSettings(count=100, train_size=400, validation_size=100),
    model=ModelSettings(name="fashion-cnn"),
    training=TrainingSettings(learning_rate=1e-3, epochs=1),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=300,
    best="trained",
)

# The text's Adam cannot reach θ in 50 rounds, so SGD as in the published code; and the table's
# baselines are met only with learning rates below the stated ones.
_synthetic = RunConfig(
    preset="friends-synthetic",
    data=DataSettings(datasets=(LINEAR,) * 3),
    shift=DatasetShift(),
    peers=PeerSettings(count=99, train_size=50, validation_size=100),
    model=ModelSettings(name="linear"),
    training=TrainingSettings(learning_rate=1e-3, epochs=1, optimizer="sgd"),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=50,
    best="trained",
)

PRESETS = (
    Preset(
        "friends-mnist-fashion",
        "MNIST and Fashion-MNIST (labels +10), 100 peers in 2 clusters",
        _mnist_fashion,
        baselines(FETCHES, alone_learning_rate=5e-5),
    ),
    Preset(
        "friends-fashion-rotation",
        "Fashion-MNIST rotated 0/180/10/350, 100 peers in clusters of 70/20/5/5",
        _mnist_fashion.model_copy(
            update={
                "preset": "friends-fashion-rotation",
                "data": DataSettings(datasets=("fashion-mnist",)),
                "shift": RotationShift(angles=(0, 180, 10, 350)),
                "peers": PeerSettings(
                    count=100, clusters=(70, 20, 5, 5), train_size=500, validation_size=100
                ),
                "training": TrainingSettings(learning_rate=3e-4, epochs=1),
                "strategy": {"name": "random", "fetches": 4},
            }
        ),
        baselines(4, alone_learning_rate=5e-5),
    ),
    Preset(
        "friends-cifar100",
        "CIFAR-100 in clusters of superclasses, 52 peers (26/13/13), ResNet-18 from scratch",
        _mnist_fashion.model_copy(
            update={
                "preset": "friends-cifar100",
                "data": DataSettings(datasets=("cifar100",)),
                "shift": SuperclassShift(groups=_SUPERCLASSES),
                "peers": PeerSettings(
                    count=52, clusters=(26, 13, 13), train_size=400, validation_size=100
                ),
                "model": ModelSettings(name="resnet-18"),
                "training": TrainingSettings(learning_rate=1e-4, epochs=1),
                "rounds": 270,
            }
        ),
        baselines(FETCHES),
    ),
    Preset(
        "friends-synthetic",
        "linear regression with three true θ, 99 peers in 3 clusters (made on the spot)",
        _synthetic,
        (
            Variant("local", {"name": "local"}, {"training.learning_rate": 2.5e-4}),
            bare("random", FETCHES),
            bare("oracle", FETCHES),
        ),
    ),
)
