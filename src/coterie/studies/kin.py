"""The study of Kin: against others, without its parts, with poisoned peers, on other data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coterie.data.drift import NoDrift
from coterie.experiments.presets import find_preset
from coterie.experiments.presets.preset import Preset, Variant, default_variant
from coterie.strategies import make_strategy
from coterie.studies.base import Setting, Study

TAUS = (1, 10, 100, 1000)
"""The temperatures of DAC that are tried besides the published one."""
PUBLISHED_DAC = ("dac", "dac-inverse-loss")
"""The labels of DAC by inverse loss with FedAvg and the temperature of the paper."""
PUBLISHED_PANM = "panm-inverse-loss"
COMMON = {"initialisation": "common"}
SAME_RATE = {"training.learning_rate": 3e-3}
"""For the synthetic task, whose published learning rates differ by strategy."""
POISONS = ("absent", "sign-flip", "noise", "label-flip", "stale", "liar")
"""The first, absent, shows how much the loss of their data alone costs."""
POISONED_SHARE = 0.3
DELUSION = {
    "poison.kind": "delusional",
    "poison.count": 25,
    "poison.cluster": 0,
    "poison.from_round": 50,
}
VALIDATION_SIZES = (20, 50, 100, 200, 500, 1000)
FEWER_PEERS = 32
"""CIFAR-10 has enough images for this many peers with 400 training and 1,000 validation images."""
NUM_TASKS = 20
"""The number of peers in the setting where each peer has a different task."""


def compared(preset: Preset) -> tuple[Variant, ...]:
    """Return all strategies of the main comparison, with the preset's options if it has any.

    All merge the m models of the preset per round; HAST fetches as many in its two steps. PANM
    fetches at least about twice as many: its neighbours, and the candidates it tries.
    """
    dac = _dac(preset)
    (kin,) = preset.compared(["kin"])
    variants = [
        *preset.compared(["local", "random", "oracle"]),
        dac,
        *(
            replace(dac, label=f"dac-tau{tau}", strategy={**dac.strategy, "tau": tau})
            for tau in TAUS
            if tau != dac.strategy["tau"]  # DAC itself has this one
        ),
        _pens(preset),
        _panm(preset),
        kin,
    ]
    if not isinstance(preset.config.drift, NoDrift):
        # Fine-tuning is more training, so both are compared with it and without it.
        variants += preset.compared(["hast", "hast-not-finetuned"])
        variants.append(_with_option(kin, "kin-not-finetuned", "finetune", False))
    return tuple(variants)


def _own(preset: Preset, *labels: str) -> Variant | None:
    """Return the first of these variants that the preset has."""
    own = {variant.label: variant for variant in preset.variants}
    return next((own[label] for label in labels if label in own), None)


def _dac(preset: Preset) -> Variant:
    """Return DAC with the published temperature; its label is the same in every setting."""
    found = _own(preset, *PUBLISHED_DAC) or default_variant("dac", _fetches(preset))
    return replace(found, label="dac")


def _pens(preset: Preset) -> Variant:
    """Return PENS; without options in the preset, as in the DAC paper: it samples m per round."""
    if found := _own(preset, "pens"):
        return found
    model = _own(find_preset("dac-cifar-rotation4"), "pens")
    options = dict(model.strategy) if model else {}
    options["samples"] = options["later_fetches"] = _fetches(preset)
    options["exploration_epochs"] = preset.config.training.epochs
    return Variant("pens", options)


def _panm(preset: Preset) -> Variant:
    """Return PANM by inverse loss, which keeps m neighbours and tries m candidates."""
    found = _own(preset, PUBLISHED_PANM) or default_variant("panm", _fetches(preset))
    options = {**found.strategy, "candidates": found.strategy["fetches"]}
    return replace(found, label="panm", strategy=options)


def _fetches(preset: Preset) -> int:
    return int(preset.config.strategy["fetches"])


def parts_of_kin(preset: Preset) -> tuple[Variant, ...]:
    """Return Kin without each of its parts in turn, and Oracle with Kin's merge."""
    oracle, kin = preset.compared(["oracle", "kin"])
    parts = [name for name, value in make_strategy("kin").options().items() if value is True]
    return (
        *preset.compared(["local"]),
        oracle,
        *(
            [_with_option(oracle, "oracle-adopt", "adopt", True)]
            if "adopt" in oracle.options()
            else ()
        ),
        kin,
        *(_with_option(kin, f"kin-no-{name.replace('_', '-')}", name, False) for name in parts),
    )


def _with_option(variant: Variant, label: str, option: str, value: bool) -> Variant:
    return replace(variant, label=label, strategy={**variant.strategy, option: value})


def _poisoned(variants: Sequence[Variant]) -> Iterator[Variant]:
    """Yield each strategy without poison and with each kind of poisoned peers."""
    for variant in variants:
        yield variant
        for kind in POISONS:
            # False tables harm only strategies that read tables.
            if kind != "liar" or variant.label == "kin":
                yield _with(variant, kind, {"poison.kind": kind, "poison.share": POISONED_SHARE})


def _with(variant: Variant, name: str, changes: Mapping[str, Any]) -> Variant:
    """Return a variant with more changes; their name is appended to its label."""
    changed = {**variant.changes, **changes}
    return replace(variant, label=f"{variant.label}-{name}", changes=changed)


def _main(name: str, preset: str, changes: Mapping[str, Any] | None = None) -> Setting:
    return Setting(name, "main", preset, compared(find_preset(preset)), changes or {})


def _at_one_rate(setting: Setting) -> Setting:
    """Return a setting in which all strategies have the same learning rate."""
    variants = tuple(replace(variant, changes={}) for variant in setting.variants)
    return replace(setting, variants=variants, changes=SAME_RATE)


def _ablation(name: str, preset: str) -> Setting:
    variants = parts_of_kin(find_preset(preset))
    return Setting(f"ablation-{name}", "ablation", preset, variants, folder=name)


def _poison(name: str, preset: str, changes: Mapping[str, Any] | None = None) -> Setting:
    variants = tuple(_poisoned(find_preset(preset).compared(["random", "oracle", "kin"])))
    return Setting(f"poison-{name}", "poison", preset, variants, changes or {}, name)


def _death() -> Setting:
    clean = find_preset("friends-cifar-labels2").compared(["oracle", "kin"])
    poisoned = [_with(variant, "delusional", DELUSION) for variant in clean]
    variants = (*clean, *poisoned)
    return Setting("death", "poison", "friends-cifar-labels2", variants, folder="labels2")


def _condition(name: str, changes: Mapping[str, Any]) -> Setting:
    preset = find_preset("dac-cifar-rotation4")
    variants = tuple(preset.compared(["local", "oracle", "kin"]))
    return Setting(name, "conditions", preset.name, variants, {**COMMON, **changes})


def _conditions() -> Iterator[Setting]:
    for size in VALIDATION_SIZES:
        changes = {"peers.count": FEWER_PEERS, "peers.validation_size": size}
        yield _condition(f"validation-{size}", changes)
    yield _condition("iid", {"shift.kind": "none"})
    yield _condition("own-task", {"peers.count": NUM_TASKS, "shift": own_tasks(NUM_TASKS)})
    sizes = {"kind": "skewed", "exponent": 1.0, "smallest": 50}
    yield _condition("unequal-sizes", {"peers.sizes": sizes})
    yield _condition("offline", {"network.offline_probability": 0.3})


def own_tasks(count: int) -> dict[str, Any]:
    """Return a shift in which any two clusters disagree on most labels.

    In each cluster every label is swapped with another one. The pairings are spread evenly over the
    list of all pairings. All peers have the same images, so that only the labels differ.
    """
    pairings = list(_pairings(tuple(range(10))))
    step = len(pairings) // count
    return {"kind": "label-swap", "swaps": [pairings[number * step] for number in range(count)]}


def _pairings(labels: tuple[int, ...]) -> Iterator[list[list[int]]]:
    """Yield all ways to divide labels into pairs."""
    if not labels:
        yield []
        return
    first, *others = labels
    for second in others:
        rest = tuple(label for label in others if label != second)
        for pairing in _pairings(rest):
            yield [[first, second], *pairing]


KIN = Study(
    "kin",
    "Kin against other strategies, without each of its parts, with poisoned peers, and in "
    "conditions that no paper tested",
    (
        _main("labels2", "friends-cifar-labels2"),
        _main("labels5", "friends-cifar-labels5"),
        _main("rotation4", "dac-cifar-rotation4"),
        _main("rotation4-common", "dac-cifar-rotation4", COMMON),
        _main("rotation-uneven", "dac-cifar-rotation-uneven"),
        _main("fashion", "friends-fashion-rotation"),
        _main("mnist-fashion", "friends-mnist-fashion"),
        _main("digits", "digits"),
        _at_one_rate(_main("synthetic", "friends-synthetic")),
        _main("hast-labels2", "hast-cifar-labels2"),
        _main("swap4-feddrift", "hast-swap4-feddrift"),
        _ablation("labels5", "friends-cifar-labels5"),
        _ablation("rotation4", "dac-cifar-rotation4"),
        _ablation("digits", "digits"),
        _poison("labels2", "friends-cifar-labels2"),
        _poison("rotation4-common", "dac-cifar-rotation4", COMMON),
        _death(),
        *_conditions(),
    ),
)
