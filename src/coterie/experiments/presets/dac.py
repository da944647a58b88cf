"""Presets of "Decentralized adaptive clustering" (Listo Zec et al. 2022)."""

from __future__ import annotations

from coterie.data.scenario import PeerSettings
from coterie.data.shifts import LabelShift, RotationShift
from coterie.experiments.config import DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, baselines
from coterie.learning.settings import TrainingSettings

FETCHES = 5
TAU = 30.0

_DAC = {"name": "dac", "fetches": FETCHES, "tau": TAU}
# The paper only says: 20 + 180 rounds, ranked by loss. The published code samples as many models as
# other strategies fetch, selects 2 of them once per round, and trains as usual.
_PENS = {
    "name": "pens",
    "fetches": 2,
    "samples": FETCHES,
    "samplings": 1,
    "exploration_rounds": 20,
    "exploration_epochs": 3,
    "later_fetches": FETCHES,
    "metric": "inverse-loss",
}
_VARIANTS = (
    *baselines(FETCHES),
    Variant("dac", _DAC),
    Variant("dac-var", {**_DAC, "temperature": "growing"}),
    Variant("dac-min-max", {**_DAC, "rescale": True}),
    Variant("dac-no-estimates", {**_DAC, "two_hop": False}),
    Variant("pens", _PENS),
)

_rotation4 = RunConfig(
    preset="dac-cifar-rotation4",
    data=DataSettings(datasets=("cifar10",)),
    shift=RotationShift(angles=(0, 90, 180, 270)),
    peers=PeerSettings(count=100, train_size=400, validation_size=100),
    model=ModelSettings(name="cifar-cnn"),
    training=TrainingSettings(learning_rate=3e-4, epochs=3),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=200,
    initialisation="independent",
    best="trained",
)

_uneven_peers = PeerSettings(
    count=100, clusters=(70, 20, 5, 5), train_size=400, validation_size=100
)
_UNEVEN = {"shift": RotationShift(angles=(0, 180, 10, 350)), "peers": _uneven_peers}

PRESETS = (
    Preset(
        "dac-cifar-rotation4",
        "CIFAR-10 rotated 0/90/180/270, 100 peers in 4 clusters",
        _rotation4,
        _VARIANTS,
    ),
    Preset(
        "dac-cifar-rotation-uneven",
        "CIFAR-10 rotated 0/180/10/350, 100 peers in clusters of 70/20/5/5",
        _rotation4.model_copy(update={"preset": "dac-cifar-rotation-uneven", **_UNEVEN}),
        _VARIANTS,
    ),
    Preset(
        "dac-fashion-rotation-uneven",
        "Fashion-MNIST rotated 0/180/10/350, 100 peers in clusters of 70/20/5/5",
        _rotation4.model_copy(
            update={
                "preset": "dac-fashion-rotation-uneven",
                **_UNEVEN,
                "data": DataSettings(datasets=("fashion-mnist",)),
                "peers": _uneven_peers.model_copy(update={"train_size": 500}),
                "model": ModelSettings(name="fashion-cnn"),
                "training": TrainingSettings(learning_rate=1e-5, epochs=3),
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "dac-cifar-labels",
        "CIFAR-10 vehicles and animals, 100 peers in clusters of 40 and 60",
        _rotation4.model_copy(
            update={
                "preset": "dac-cifar-labels",
                "shift": LabelShift(groups=((0, 1, 8, 9), (2, 3, 4, 5, 6, 7))),
                "peers": PeerSettings(
                    count=100, clusters=(40, 60), train_size=400, validation_size=100
                ),
                "training": TrainingSettings(learning_rate=3e-5, epochs=3),
            }
        ),
        _VARIANTS,
    ),
)
