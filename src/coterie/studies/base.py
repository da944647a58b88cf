"""What a study is: settings, each a preset with changes and strategies, shown in groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.data.drift import NoDrift
from coterie.errors import ConfigError, suggest
from coterie.experiments.config import RunConfig, with_changes
from coterie.experiments.presets import find_preset
from coterie.experiments.presets.preset import Preset, Variant

NUM_TESTS = 5
"""How often models are tested in a setting whose data stay; tests take long."""
DRIFT_TEST_EVERY = 10
"""Rounds between tests where data change: what counts there is the mean over time."""
ALL_ROUNDS = {"patience": None, "best_by": "loss"}
"""Strategies are compared over equally many rounds: no peer stops early, whatever the paper did."""


@dataclass(frozen=True)
class Setting:
    """One column of a table: a preset with changes, and the strategies compared in it.

    Settings of the same folder share its runs: what two groups show is run once. They need the
    same preset and changes.
    """

    name: str
    group: str
    preset: str
    variants: tuple[Variant, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """Where its runs are, within the study's folder; one of its own when not given."""
    is_published: bool = False
    """Whether runs are as a paper has them, early stopping included, to hold beside its numbers."""

    @property
    def place(self) -> str:
        """The name of the folder its runs are in."""
        return self.folder or self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """What the strategies are called, in order."""
        return tuple(variant.label for variant in self.variants)

    def runs(
        self,
        labels: Collection[str] | None,
        seeds: Sequence[int],
        changes: Mapping[str, Any],
        *,
        scale: float = 1.0,
    ) -> list[RunConfig]:
        """Return one configuration for each of these strategies that is compared here, and seed.

        Options that no strategy has here are left out: they may be meant for another setting.
        """
        chosen = [each for each in self.variants if labels is None or each.label in labels]
        if not chosen:
            return []
        given = {key: v for key, v in changes.items() if any(each.accepts(key) for each in chosen)}
        preset = self._as_preset()
        given |= _closer_shifts(preset.config, given)
        configs = preset.runs([each.label for each in chosen], seeds, given, scale=scale)
        return [self._tested(config, given) for config in configs]

    def _as_preset(self) -> Preset:
        """Return the preset with this setting's own changes and strategies."""
        preset = find_preset(self.preset)
        rounds = {} if self.is_published else ALL_ROUNDS
        config = with_changes(preset.config, {**rounds, **self.changes})
        return Preset(preset.name, preset.summary, config, self.variants)

    def _tested(self, config: RunConfig, given: Collection[str]) -> RunConfig:
        """Return a configuration with as many tests as its kind needs.

        Published results are those of the last round, of one kind of best model.
        """
        every = DRIFT_TEST_EVERY
        if isinstance(config.drift, NoDrift):
            num_tests = 1 if self.is_published else NUM_TESTS
            every = max(1, math.ceil(config.rounds / num_tests))
        usual = {"test_every": every, "compare_bests": not self.is_published}
        return with_changes(config, {key: usual[key] for key in usual if key not in given})


@dataclass(frozen=True)
class Study:
    """A named list of settings."""

    name: str
    summary: str
    settings: tuple[Setting, ...]
    seeds: range = range(1, 4)
    """The seeds that are run when none are named."""
    is_seed_by_seed: bool = False
    """Whether everything is run with the first seed before anything is with the second."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order."""
        return tuple(dict.fromkeys(setting.group for setting in self.settings))

    def chosen(self, only: Sequence[str] | None) -> list[Setting]:
        """Return the settings of these names or groups, in the study's order; without any, all."""
        known = [*self.groups, *(setting.name for setting in self.settings)]
        for name in only or ():
            if name not in known:
                raise ConfigError(
                    f"--only {name}: the study {self.name} has no such group or setting."
                    f"{suggest(name, known)}"
                )
        return [each for each in self.settings if not only or {each.name, each.group} & {*only}]


@dataclass(frozen=True)
class Part:
    """The runs of one folder that are asked for."""

    place: str
    settings: tuple[str, ...]
    """The names of the settings that show them."""
    configs: tuple[RunConfig, ...]


def plan(
    settings: Sequence[Setting],
    labels: Sequence[str] | None,
    seeds: Sequence[int],
    changes: Mapping[str, Any],
    scale: float = 1.0,
) -> list[Part]:
    """Return what is to be run, folder by folder; seeds vary slowest."""
    _check_asked(settings, labels, changes)
    places: dict[str, dict[tuple[int, str], RunConfig]] = {}
    names: dict[str, list[str]] = {}
    for setting in settings:
        for config in setting.runs(labels, seeds, changes, scale=scale):
            known = places.setdefault(setting.place, {})
            known.setdefault((config.seed, config.label), config)
            names.setdefault(setting.place, []).append(setting.name)
    return [
        Part(
            place,
            tuple(dict.fromkeys(names[place])),
            tuple(sorted(configs.values(), key=lambda config: config.seed)),
        )
        for place, configs in places.items()
    ]


def _check_asked(
    settings: Sequence[Setting], labels: Sequence[str] | None, changes: Mapping[str, Any]
) -> None:
    """Refuse strategies, and options of strategies, that none of the settings has."""
    variants = [variant for setting in settings for variant in setting.variants]
    known = {variant.label for variant in variants}
    for label in labels or ():
        if label not in known:
            raise ConfigError(
                f"--strategy {label}: none of the settings compares it.{suggest(label, known)}"
            )
    meant = [variant for variant in variants if labels is None or variant.label in labels]
    for key in changes:
        if not any(variant.accepts(key) for variant in meant):
            options = {f"strategy.{name}" for variant in meant for name in variant.options()}
            raise ConfigError(f"--set {key}: no strategy has this option.{suggest(key, options)}")


def _closer_shifts(config: RunConfig, given: Mapping[str, Any]) -> dict[str, int]:
    """Return what keeps all shifts of a drift where another number of rounds was given."""
    if isinstance(config.drift, NoDrift) or "rounds" not in given or "drift.every" in given:
        return {}
    return {"drift.every": max(1, round(config.drift.every * given["rounds"] / config.rounds))}
