"""Presets on scikit-learn's bundled digits: offline, in seconds."""

from __future__ import annotations

from coterie.data.drift import RandomDrift
from coterie.data.scenario import PeerSettings
from coterie.data.shifts import RotationShift
from coterie.experiments.config import DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, baselines, default_variant
from coterie.learning.settings import TrainingSettings

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

# Phases are shorter than in the papers because the runs are shorter.
_PENS = {"samples": 15, "samplings": 2, "exploration_rounds": 10, "exploration_epochs": 3}
_LOCAL, _RANDOM, _ORACLE = baselines(FETCHES)
_DAC = default_variant("dac", FETCHES)
_HAST = default_variant("hast", 3)
_KIN = default_variant("kin", FETCHES)
_METHODS = (
    *(_LOCAL, _RANDOM, _ORACLE),
    default_variant("gossip"),
    _DAC,
    Variant("pens", {"name": "pens", "fetches": 3, "later_fetches": FETCHES, **_PENS}),
    Variant("panm", {"name": "panm", "fetches": FETCHES, "confident_rounds": 15}),
    _HAST,
    _KIN,
    Variant("fedavg", {"name": "fedavg", "fetches": 20}),
    Variant("ifca", {"name": "ifca", "fetches": 20, "models": 4}),
)

PRESETS = (
    Preset(
        "digits",
        "8×8 digits rotated 0/90/180/270, 40 peers in 4 clusters (bundled data)",
        _config,
        (_LOCAL, _RANDOM, _DAC, _ORACLE, _KIN),
    ),
    Preset(
        "digits-methods",
        "digits with Kin and the papers' algorithms side by side (bundled data)",
        _config.model_copy(update={"preset": "digits-methods"}),
        _METHODS,
    ),
    Preset(
        "digits-drift",
        "digits whose rotations are reshuffled among the peers every 20 rounds (bundled data)",
        _config.model_copy(
            update={"preset": "digits-drift", "rounds": 60, "drift": RandomDrift(every=20)}
        ),
        (_LOCAL, _RANDOM, _HAST, _ORACLE, _KIN),
    ),
)
