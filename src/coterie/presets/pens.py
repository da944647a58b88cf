"""Presets of PENS, performance-based neighbour selection (Onoszko & Karlsson 2021)."""

from __future__ import annotations

from coterie.config import DataSettings, ModelSettings, RunConfig
from coterie.data.scenario import PeerSettings
from coterie.data.shifts import NoShift, RotationShift
from coterie.learning.trainer import TrainingSettings
from coterie.presets.base import Preset, Variant, bare, baselines

FETCHES = 20

_rotation2 = RunConfig(
    preset="pens-cifar-rotation2",
    data=DataSettings(datasets=("cifar10",)),
    shift=RotationShift(angles=(0, 180)),
    peers=PeerSettings(count=200, train_size=125, validation_size=125),
    model=ModelSettings(name="pens-cnn"),
    training=TrainingSettings(learning_rate=1e-3, epochs=3),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=333,
    patience=50,
    best="trained",
    best_by="accuracy",
)

_GREEDY = {"name": "greedy", "fetches": 4, "samples": 20}
_SELECTIVE = (
    Variant("pens", {"name": "pens"}),
    Variant("epsilon-greedy-0.5", {**_GREEDY, "epsilon": 0.5}),
    Variant("epsilon-greedy-1-0.99", {**_GREEDY, "epsilon": 1.0, "decay": 0.99}),
    Variant("epsilon-greedy-0.2", {**_GREEDY, "epsilon": 0.2}),
    Variant("greedy", _GREEDY),
    bare("random-weighted", FETCHES),
)
_CENTRAL = (
    Variant("central-cluster", {"name": "central", "scope": "cluster"}),
    Variant("central-all", {"name": "central", "scope": "all"}),
)

PRESETS = (
    Preset(
        "pens-cifar-rotation2",
        "CIFAR-10 rotated 0/180, 200 peers in 2 clusters, early stopping",
        _rotation2,
        (*baselines(FETCHES), *_SELECTIVE, *_CENTRAL),
    ),
    Preset(
        "pens-cifar-iid",
        "CIFAR-10 without any shift, 200 peers",
        _rotation2.model_copy(update={"preset": "pens-cifar-iid", "shift": NoShift()}),
        (bare("local"), bare("random", FETCHES), _CENTRAL[1]),
    ),
)
