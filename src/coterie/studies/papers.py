"""The study of the papers: every experiment of the four works, the cheapest answers first.

A setting is named after its preset where it is the preset as it is; its runs stand beside the
published numbers. Figures are settings of their own, with what the paper varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coterie.experiments.presets import find_preset
from coterie.experiments.presets.preset import Preset, Variant
from coterie.experiments.published import published_tables
from coterie.studies.base import Setting, Study

STEP = 50
"""Rounds between the shifts of HAST's settings, which has 200: all ten steps, in a quarter."""
TRAIN_SIZES = (50, 100, 200, 300, 400)
"""Training images per peer in figure 2 of the DAC paper."""
FEW_TRAIN_SIZES = (10, 25, 50, 100, 200, 400)
"""Training images per peer in figures 4.10 and 4.11 of the thesis."""
TAUS = (1, 5, 10, 30, 100, 300)
"""Temperatures around the published one, as in figure 3 of the DAC paper."""
FACTORS = (0.03, 0.1, 0.3, 1, 3, 10)
"""Times the published temperature, which is between 1 and 10,000 in the thesis."""
FIGURE_ROWS = ("local", "random", "oracle", "dac")
THESIS_ROWS = ("local", "random", "oracle", "dac-inverse-loss")
THESIS_METRICS = (
    "dac-inverse-loss",
    "dac-cosine-gradients",
    "dac-cosine-weights",
    "dac-inverse-distance",
)
DEPTHS = (1, 2, 3, 4, 5)
HAST_SETTINGS = (
    "hast-cifar-labels2",
    "hast-cifar-labels4",
    "hast-cifar-random-labels",
    "hast-swap2-feddrift",
    "hast-swap4-feddrift",
    "hast-swap4-random",
    "hast-pacs",
)
DROPOUT = {"model.name": "cifar-cnn-dropout"}
IN_TURN = {"schedule": "sequential"}
UNSAID: Mapping[str, Mapping[str, Any]] = {
    "dropout": DROPOUT,
    "in-turn": IN_TURN,
    "both": {**DROPOUT, **IN_TURN},
    "by-accuracy": {"best_by": "best-score"},
}
"""What the DAC paper does not say and its tables may have, one at a time and together."""
UNSAID_ROWS = ("oracle", "dac", "random", "local")


def _table(name: str) -> Setting:
    """Return a preset with the strategies that have published numbers, or with all of its own."""
    preset, table = find_preset(name), published_tables().get(name)
    labels = (
        None if table is None else [v.label for v in preset.variants if v.label in table.results]
    )
    return _setting(name, preset, preset.compared(labels))


def _setting(
    name: str, preset: Preset, variants: Sequence[Variant], changes: Mapping[str, Any] | None = None
) -> Setting:
    paper = preset.name.partition("-")[0]
    return Setting(name, paper, preset.name, tuple(variants), changes or {}, is_published=True)


def _neighbours(num_peers: int) -> Setting:
    """Return step 1 of PENS alone, after which table 4.3 looks at the neighbours found."""
    preset = find_preset(f"pens-cifar-rotation2-{num_peers}")
    (pens,) = preset.compared(["pens"])
    rounds = pens.strategy["exploration_rounds"]
    return _setting(f"pens-neighbours-{num_peers}", preset, [pens], {"rounds": rounds})


def _steps(name: str) -> Setting:
    """Return a setting of HAST with all its steps, each of fewer rounds."""
    preset = find_preset(name)
    num_steps = preset.config.rounds // preset.config.drift.model_dump()["every"]
    return _setting(
        name, preset, preset.variants, {"drift.every": STEP, "rounds": num_steps * STEP}
    )


def _depths() -> Setting:
    """Return HAST with every depth of its second merge (figure 2b)."""
    preset = find_preset("hast-cifar-labels2")
    (hast,) = preset.compared(["hast"])
    variants = [
        replace(hast, label=f"hast-depth{depth}", strategy={**hast.strategy, "depth": depth})
        for depth in DEPTHS
    ]
    return _setting("hast-depth", preset, variants, {"drift.every": STEP, "rounds": 10 * STEP})


def _train_sizes(name: str, preset_name: str, rows: Sequence[str], sizes: Sequence[int]) -> Setting:
    """Return accuracy against the number of training images (DAC figure 2, thesis 4.10, 4.11)."""
    preset = find_preset(preset_name)
    variants = [
        _changed(variant, f"n{size}", {"peers.train_size": size})
        for size in sizes
        for variant in preset.compared(rows)
    ]
    return _setting(name, preset, variants)


def _temperatures(name: str, preset_name: str, taus: Mapping[str, Sequence[float]]) -> Setting:
    """Return DAC with several temperatures (DAC figure 3; thesis, figures A.1 to A.7)."""
    preset = find_preset(preset_name)
    variants = [
        replace(variant, label=f"{label}-tau{tau:g}", strategy={**variant.strategy, "tau": tau})
        for label, values in taus.items()
        for variant in preset.compared([label])
        for tau in values
    ]
    return _setting(name, preset, variants)


def _thesis_temperatures(name: str, labels: Sequence[str]) -> Setting:
    """Return temperatures around the published one of each metric."""
    preset_name = f"friends-{name}"
    published = find_preset(preset_name).compared(labels)
    taus = {
        variant.label: [variant.strategy["tau"] * factor for factor in FACTORS]
        for variant in published
    }
    return _temperatures(f"friends-tau-{name.rpartition('cifar-')[2]}", preset_name, taus)


def _true_similarity() -> Setting:
    """Return what one peer of each cluster would measure on all others (thesis, 4.3 to 4.5)."""
    preset = find_preset("friends-cifar-labels2")
    first_peers = {"watch.peers": [0, 60], "watch.every": 5}
    return _setting("friends-true-similarity", preset, preset.compared(THESIS_METRICS), first_peers)


def _epochs() -> Setting:
    """Return CIFAR-10 labels2 with the numbers of local epochs of table A.3."""
    preset = find_preset("friends-cifar-labels2")
    variants = [
        _changed(variant, f"e{epochs}", {"training.epochs": epochs})
        for epochs in (5, 10)
        for variant in preset.compared(["random", "oracle", "dac-inverse-loss"])
    ]
    return _setting("friends-epochs", preset, variants)


def _unsaid() -> Iterator[Setting]:
    """Yield DAC's tables 1 and 2 with what the text does not say."""
    for preset in map(find_preset, ("dac-cifar-rotation4", "dac-cifar-rotation-uneven")):
        for name, changes in UNSAID.items():
            variants = preset.compared(UNSAID_ROWS)
            yield _setting(f"{preset.name}-{name}", preset, variants, changes)


def _changed(variant: Variant, name: str, changes: Mapping[str, Any]) -> Variant:
    return replace(variant, label=f"{variant.label}-{name}", changes={**variant.changes, **changes})


PAPERS = Study(
    "papers",
    "Every experiment of the four papers in full length, beside the published numbers",
    (
        _table("friends-synthetic"),
        _table("friends-cifar-labels5"),
        _table("friends-cifar-labels2"),
        _table("dac-cifar-labels"),
        _table("friends-fashion-rotation"),
        _table("friends-mnist-fashion"),
        _table("dac-fashion-rotation-uneven"),
        _table("friends-mnist-fashion-mlp"),
        _table("friends-cluster-death"),
        *(_neighbours(num_peers) for num_peers in (50, 1000)),
        _table("dac-cifar-rotation4"),
        _table("dac-cifar-rotation-uneven"),
        *(_steps(name) for name in HAST_SETTINGS),
        _table("hast-cifar-iid"),
        _depths(),
        _train_sizes("dac-train-size", "dac-cifar-rotation4", FIGURE_ROWS, TRAIN_SIZES),
        _temperatures("dac-tau-rotation4", "dac-cifar-rotation4", {"dac": TAUS}),
        _thesis_temperatures("synthetic", THESIS_METRICS),
        _true_similarity(),
        *(
            _thesis_temperatures(name, ["dac-inverse-loss"])
            for name in ("cifar-labels2", "cifar-labels5", "fashion-rotation", "mnist-fashion")
        ),
        _train_sizes("friends-train-size", "friends-cifar-labels2", THESIS_ROWS, FEW_TRAIN_SIZES),
        *_unsaid(),
        _table("pens-cifar-iid"),
        _table("pens-cifar-rotation2"),
        _table("pens-cifar-rotation2-common"),
        _epochs(),
        _table("friends-cifar100-scratch"),
    ),
    seeds=range(3),
    is_seed_by_seed=True,
)
