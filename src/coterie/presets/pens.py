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

_CENTRAL = (
    Variant("central-cluster", {"name": "central", "scope": "cluster"}),
    Variant("central-all", {"name": "central", "scope": "all"}),
)

PRESETS = (
    Preset(
        "pens-cifar-rotation2",
        "CIFAR-10 rotated 0/180, 200 peers in 2 clusters, early stopping",
        _rotation2,
        (*baselines(FETCHES), *_CENTRAL),
    ),
    Preset(
        "pens-cifar-iid",
        "CIFAR-10 without any shift, 200 peers",
        _rotation2.model_copy(update={"preset": "pens-cifar-iid", "shift": NoShift()}),
        (bare("local"), bare("random", FETCHES), _CENTRAL[1]),
    ),
)
