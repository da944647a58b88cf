"""Presets on scikit-learn's bundled digits: offline, in seconds."""

from __future__ import annotations

from coterie.config import DataSettings, ModelSettings, RunConfig
from coterie.data.drift import RandomDrift
from coterie.data.scenario import PeerSettings
from coterie.data.shifts import RotationShift
from coterie.learning.trainer import TrainingSettings
from coterie.presets.base import Preset, baselines

FETCHES = 5

_config = RunConfig(
    preset="digits",
    data=DataSettings(datasets=("digits",)),
    shift=RotationShift(angles=(0, 90, 180, 270)),
    peers=PeerSettings(count=40, train_size=24, validation_size=10),
    model=ModelSettings(name="digits-cnn"),
    training=TrainingSettings(learning_rate=1e-3, epochs=3),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=40,
)

PRESETS = (
    Preset(
        "digits",
        "8×8 digits rotated 0/90/180/270, 40 peers in 4 clusters (bundled data)",
        _config,
        baselines(FETCHES),
    ),
    Preset(
        "digits-drift",
        "digits whose rotations are reshuffled among the peers every 20 rounds (bundled data)",
        _config.model_copy(
            update={"preset": "digits-drift", "rounds": 60, "drift": RandomDrift(every=20)}
        ),
        baselines(FETCHES),
    ),
)
