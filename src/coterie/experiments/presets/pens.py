"""Presets of PENS, performance-based neighbour selection (Onoszko & Karlsson 2021)."""

from __future__ import annotations

from coterie.data.scenario import PeerSettings
from coterie.data.shifts import NoShift, RotationShift
from coterie.experiments.config import DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, baselines, default_variant
from coterie.learning.settings import TrainingSettings

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
    best_by="score",
    initialisation="independent",
)

_CENTRAL = (
    Variant("central-cluster", {"name": "central", "scope": "cluster"}),
    Variant("central-all", {"name": "central", "scope": "all"}),
)


def _compared(selected: int, samples: int, epochs: int) -> tuple[Variant, ...]:
    """Return the rows of table 4.2, by m_selected, m_sample and the epochs of step 1 of PENS."""
    greedy = {"name": "greedy", "fetches": selected, "samples": samples}
    pens = {
        "name": "pens",
        "fetches": selected,
        "samples": samples,
        "samplings": 10,
        "exploration_rounds": 20,
        "exploration_epochs": epochs,
        "later_fetches": FETCHES,
    }
    return (
        *baselines(FETCHES),
        Variant("pens", pens),
        Variant("epsilon-greedy-0.5", {**greedy, "epsilon": 0.5}),
        Variant("epsilon-greedy-1-0.99", {**greedy, "epsilon": 1.0, "decay": 0.99}),
        Variant("epsilon-greedy-0.2", {**greedy, "epsilon": 0.2}),
        Variant("greedy", greedy),
        default_variant("random-weighted", FETCHES),
        *_CENTRAL,
    )


def _both_starts(preset: Preset) -> tuple[Preset, Preset]:
    """Return the preset, with independent initial weights, and a copy with common ones."""
    name = f"{preset.name}-common"
    changes = {"preset": name, "initialisation": "common"}
    summary = f"{preset.summary}, common initial weights"
    return preset, Preset(name, summary, preset.config.model_copy(update=changes), preset.variants)


def _rotation(name: str, peers: PeerSettings, variants: tuple[Variant, ...]) -> Preset:
    return Preset(
        name,
        f"CIFAR-10 rotated 0/180, {peers.count} peers in 2 clusters, early stopping",
        _rotation2.model_copy(update={"preset": name, "peers": peers}),
        variants,
    )


PRESETS = (
    *_both_starts(
        _rotation(
            "pens-cifar-rotation2-50",
            PeerSettings(count=50, train_size=875, validation_size=125),
            _compared(1, 5, epochs=2),
        )
    ),
    *_both_starts(
        _rotation("pens-cifar-rotation2", _rotation2.peers, _compared(4, 20, epochs=10)),
    ),
    *_both_starts(
        _rotation(
            "pens-cifar-rotation2-1000",
            PeerSettings(count=1000, train_size=25, validation_size=25),
            _compared(4, 20, epochs=50),
        )
    ),
    *_both_starts(
        Preset(
            "pens-cifar-iid",
            "CIFAR-10 without any shift, 200 peers",
            _rotation2.model_copy(update={"preset": "pens-cifar-iid", "shift": NoShift()}),
            (default_variant("local"), default_variant("random", FETCHES), _CENTRAL[1]),
        )
    ),
)
