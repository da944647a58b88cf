"""Presets of HAST, layer-wise merging under temporal shift (Toftås et al. 2023)."""

from __future__ import annotations

from coterie.data.drift import FedDrift2, FedDrift4, NoDrift, RandomDrift
from coterie.data.scenario import PeerSettings
from coterie.data.shifts import (
    DatasetShift,
    LabelShift,
    LabelSwapShift,
    NoShift,
    RandomLabelShift,
)
from coterie.experiments.config import DataSettings, ModelSettings, RunConfig
from coterie.experiments.presets.preset import Preset, Variant, baselines
from coterie.learning.settings import TrainingSettings

FETCHES = 6
"""DAC and Random fetch 2n = 6 models per round, as many as HAST in two steps of n = 3."""
EVERY = 200
LABELS = (0, 1, 3, 4, 5, 7, 8, 9)

TAU = 30.0
"""The value of the DAC paper, because this paper gives none."""

_RANDOM = {"name": "random", "fetches": FETCHES}
_DAC = {"name": "dac", "fetches": FETCHES, "tau": TAU}
_HAST = {"name": "hast", "fetches": FETCHES // 2, "tau": TAU}
_VARIANTS = (
    *baselines(FETCHES),
    Variant("random-finetuned", {**_RANDOM, "finetune": True}),
    Variant("dac", _DAC),
    Variant("dac-finetuned", {**_DAC, "finetune": True}),
    Variant("hast-not-finetuned", {**_HAST, "finetune": False}),
    Variant("hast", _HAST),
)

_labels2 = RunConfig(
    preset="hast-cifar-labels2",
    data=DataSettings(datasets=("cifar10",)),
    shift=LabelShift(groups=((0, 1, 8, 9), (3, 4, 5, 7))),
    drift=RandomDrift(every=EVERY),
    peers=PeerSettings(count=50, train_size=250, validation_size=75),
    model=ModelSettings(name="cifar-cnn"),
    training=TrainingSettings(learning_rate=8e-5, epochs=3),
    strategy={"name": "random", "fetches": FETCHES},
    rounds=10 * EVERY,
    best="trained",
)

_swap4 = LabelSwapShift(labels=LABELS, swaps=((), ((0, 1),), ((3, 4),), ((5, 7),)))

PRESETS = (
    Preset(
        "hast-cifar-labels2",
        "CIFAR-10 in two label groups, reshuffled among 50 peers every 200 rounds",
        _labels2,
        _VARIANTS,
    ),
    Preset(
        "hast-cifar-labels4",
        "CIFAR-10 in four label groups, reshuffled among 50 peers every 200 rounds",
        _labels2.model_copy(
            update={
                "preset": "hast-cifar-labels4",
                "shift": LabelShift(groups=((0, 1), (3, 4), (5, 7), (8, 9))),
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "hast-cifar-random-labels",
        "CIFAR-10 in two label groups drawn at random, reshuffled among 50 peers",
        _labels2.model_copy(
            update={
                "preset": "hast-cifar-random-labels",
                "shift": RandomLabelShift(groups=2, size=4, labels=LABELS),
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "hast-cifar-iid",
        "CIFAR-10 without any shift, 50 peers",
        _labels2.model_copy(
            update={
                "preset": "hast-cifar-iid",
                "shift": NoShift(),
                "drift": NoDrift(),
                "rounds": EVERY,
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "hast-swap2-feddrift",
        "CIFAR-10, labels 0 and 1 swapped for more and more of 20 peers (FedDrift-2)",
        _labels2.model_copy(
            update={
                "preset": "hast-swap2-feddrift",
                "shift": LabelSwapShift(labels=LABELS, swaps=((), ((0, 1),))),
                "drift": FedDrift2(every=EVERY),
                "peers": PeerSettings(count=20, train_size=250, validation_size=75),
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "hast-swap4-feddrift",
        "CIFAR-10, four meanings of the labels that come and go among 20 peers (FedDrift-4)",
        _labels2.model_copy(
            update={
                "preset": "hast-swap4-feddrift",
                "shift": _swap4,
                "drift": FedDrift4(every=EVERY),
                "peers": PeerSettings(count=20, train_size=250, validation_size=75),
            }
        ),
        _VARIANTS,
    ),
    Preset(
        "hast-swap4-random",
        "CIFAR-10, four meanings of the labels, reshuffled among 50 peers every 200 rounds",
        _labels2.model_copy(update={"preset": "hast-swap4-random", "shift": _swap4}),
        _VARIANTS,
    ),
    Preset(
        "hast-pacs",
        "PACS: photos, paintings, cartoons, sketches, reshuffled among 20 peers",
        _labels2.model_copy(
            update={
                "preset": "hast-pacs",
                "data": DataSettings(
                    datasets=("pacs-photo", "pacs-art_painting", "pacs-cartoon", "pacs-sketch")
                ),
                "shift": DatasetShift(),
                "peers": PeerSettings(count=20, train_size=175, validation_size=75),
                "model": ModelSettings(name="pacs-cnn"),
                "rounds": 4 * EVERY,
            }
        ),
        _VARIANTS,
    ),
)
