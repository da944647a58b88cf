"""Presets of the comparative thesis on similarity metrics (Hagander & Ihre-Thomason 2024)."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from coterie.data.scenario import PeerSettings
from coterie.data.shifts import DatasetShift, LabelShift, RotationShift, SuperclassShift
from coterie.experiments.config import LINEAR, DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, baselines, default_variant
from coterie.learning.settings import TrainingSettings

FETCHES = 5
PATIENCE = 50
"""Rounds without a lower validation loss after which a peer stops (table A.3)."""

TausByMetric: TypeAlias = dict[str, tuple[float, float]]
"""τ of each metric, merged by FedAvg and by FedSim."""
RatesByMetric: TypeAlias = dict[str, float]


def _taus(*values: float) -> TausByMetric:
    """Return the τ of one column of the table: inverse loss, cos grad, cos weight, L2."""
    metrics = ("inverse-loss", "cosine-gradients", "cosine-weights", "inverse-distance")
    return dict(zip(metrics, zip(values[::2], values[1::2], strict=True), strict=True))


_MNIST_FASHION_TAUS = _taus(1, 1, 2000, 100, 2000, 300, 30, 30)

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
    patience=PATIENCE,
    best="trained",
    best_by="best-score",
)

# Adam, as in the text, cannot reach θ in 50 rounds; the published code has SGD. The baselines of
# the table are reached only with learning rates below the stated ones.
_synthetic = RunConfig(
    preset="friends-synthetic",
    data=DataSettings(datasets=(LINEAR,) * 3),
    shift=DatasetShift(),
    peers=PeerSettings(count=99, train_size=50, validation_size=100),
    model=ModelSettings(name="linear"),
    training=TrainingSettings(learning_rate=1e-3, epochs=1, optimizer="sgd"),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=50,
    patience=PATIENCE,
    best="trained",
)

_labels2 = _mnist_fashion.model_copy(
    update={
        "preset": "friends-cifar-labels2",
        "data": DataSettings(datasets=("cifar10",)),
        "shift": LabelShift(groups=((2, 3, 4, 5, 6, 7), (0, 1, 8, 9))),
        "peers": PeerSettings(count=100, clusters=(60, 40), train_size=400, validation_size=100),
        "model": ModelSettings(name="cifar-cnn"),
    }
)

_fashion_rotation = _mnist_fashion.model_copy(
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
)

_cifar100 = _mnist_fashion.model_copy(
    update={
        "preset": "friends-cifar100-scratch",
        "data": DataSettings(datasets=("cifar100",)),
        "shift": SuperclassShift(groups=_SUPERCLASSES),
        "peers": PeerSettings(count=52, clusters=(26, 13, 13), train_size=400, validation_size=100),
        "model": ModelSettings(name="resnet-18"),
        "training": TrainingSettings(learning_rate=1e-4, epochs=1),
        "rounds": 270,
    }
)


def _metric_options(metric: str) -> dict[str, float]:
    """Return α = 0, as in the code that made the tables; the text says α = 1."""
    return {"alpha": 0.0} if metric == "cosine-gradients" else {}


def _dac(
    taus: TausByMetric, fetches: int = FETCHES, rates: RatesByMetric | None = None
) -> tuple[Variant, ...]:
    """Return DAC with each metric, merged by FedAvg and by FedSim, with the setting's τ."""
    return tuple(
        Variant(
            f"dac-{metric}" if merge == "fedavg" else f"dac-{metric}-{merge}",
            {
                "name": "dac",
                "fetches": fetches,
                "metric": metric,
                "tau": tau,
                "merge": merge,
                "unseen": "epsilon",
                **_metric_options(metric),
            },
            {} if rates is None else {"training.learning_rate": rates[metric]},
        )
        for metric, pair in taus.items()
        for merge, tau in zip(("fedavg", "fedsim"), pair, strict=True)
    )


def _panm(taus: TausByMetric) -> tuple[Variant, ...]:
    """Return PANM with the two metrics of the thesis, and with FedSim (not in the thesis)."""
    return tuple(
        Variant(
            f"panm-{metric}" if merge == "fedavg" else f"panm-{metric}-{merge}",
            {
                "name": "panm",
                "fetches": FETCHES,
                "candidates": 5,
                "confident_rounds": 50,
                "em_every": 2,
                "metric": metric,
                "merge": merge,
                "tau": taus[metric][1],
                **_metric_options(metric),
            },
        )
        for metric in ("inverse-loss", "cosine-gradients")
        for merge in ("fedavg", "fedsim")
    )


def _with_server(num_clusters: int) -> tuple[Variant, ...]:
    """Return baselines with a server: one model for all peers, or one per true cluster."""
    return (
        default_variant("fedavg", FETCHES),
        Variant("ifca", {"name": "ifca", "fetches": FETCHES, "models": num_clusters}),
    )


_LABELS2_TAUS = _taus(10, 5, 300, 200, 200, 200, 30, 5)
_LABELS5_TAUS = _taus(5, 5, 1000, 200, 300, 200, 30, 10)

PRESETS = (
    Preset(
        "friends-cifar-labels2",
        "CIFAR-10 animals and vehicles, 100 peers in clusters of 60 and 40",
        _labels2,
        (
            *baselines(FETCHES, local_learning_rate=1e-4),
            *_dac(_LABELS2_TAUS),
            *_panm(_LABELS2_TAUS),
            *_with_server(2),
        ),
    ),
    Preset(
        "friends-cifar-labels5",
        "CIFAR-10 in five pairs of labels, 100 peers in 5 clusters",
        _labels2.model_copy(
            update={
                "preset": "friends-cifar-labels5",
                "shift": LabelShift(groups=((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))),
                "peers": PeerSettings(count=100, train_size=400, validation_size=100),
            }
        ),
        (
            *baselines(FETCHES, local_learning_rate=1e-4),
            *_dac(_LABELS5_TAUS),
            *_panm(_LABELS5_TAUS),
            *_with_server(5),
        ),
    ),
    Preset(
        "friends-cluster-death",
        "friends-cifar-labels2 under Oracle, 1, 5 or 25 peers delusional from round 50 on",
        _labels2.model_copy(update={"preset": "friends-cluster-death"}),
        (
            default_variant("oracle", FETCHES),
            *(
                Variant(
                    f"delusional-{count}",
                    {"name": "delusional-oracle", "fetches": FETCHES, "delusional": count},
                )
                for count in (1, 5, 25)
            ),
        ),
    ),
    Preset(
        "friends-fashion-rotation",
        "Fashion-MNIST rotated 0/180/10/350, 100 peers in clusters of 70/20/5/5",
        _fashion_rotation,
        (
            *baselines(4, local_learning_rate=5e-5),
            *_dac(_taus(10, 5, 2000, 300, 2000, 300, 10, 10), 4),
        ),
    ),
    Preset(
        "friends-mnist-fashion",
        "MNIST and Fashion-MNIST (labels +10), 100 peers in 2 clusters",
        _mnist_fashion,
        (*baselines(FETCHES, local_learning_rate=5e-5), *_dac(_MNIST_FASHION_TAUS)),
    ),
    Preset(
        "friends-mnist-fashion-mlp",
        "MNIST and Fashion-MNIST (labels +10) with an MLP, 100 peers in 2 clusters",
        _mnist_fashion.model_copy(
            update={
                "preset": "friends-mnist-fashion-mlp",
                # The text's learning rate; the published code has training.learning_rate=1e-4.
                "model": ModelSettings(name="mlp"),
            }
        ),
        (*baselines(FETCHES, local_learning_rate=5e-5), *_dac(_MNIST_FASHION_TAUS)),
    ),
    Preset(
        "friends-cifar100-scratch",
        "CIFAR-100 in clusters of superclasses, 52 peers (26/13/13), ResNet-18 from scratch",
        _cifar100,
        (*baselines(FETCHES), *_dac(_taus(5, 5, 5, 5, 30, 30, 5, 5))),
    ),
    Preset(
        "friends-cifar100-pretrained",
        "the same from ImageNet weights, by --set model.pretrained=resnet18-f37072fd.pth",
        _cifar100.model_copy(
            update={
                "preset": "friends-cifar100-pretrained",
                # In the working folder; without this file the run is refused.
                # The text's learning rate; the published code has training.learning_rate=7.5e-5.
                "model": ModelSettings(name="resnet-18", pretrained=Path("resnet18-f37072fd.pth")),
            }
        ),
        (*baselines(FETCHES), *_dac(_taus(1, 1, 30, 30, 30, 30, 30, 30))),
    ),
    Preset(
        "friends-synthetic",
        "linear regression with three true θ, 99 peers in 3 clusters (generated)",
        _synthetic,
        (
            *baselines(FETCHES, local_learning_rate=2.5e-4),
            *_dac(
                _taus(10_000, 5_000, 140, 140, 140, 140, 19, 19),
                rates={
                    "inverse-loss": 0.008,
                    "cosine-gradients": 0.003,
                    "cosine-weights": 0.003,
                    "inverse-distance": 0.008,
                },
            ),
        ),
    ),
)
