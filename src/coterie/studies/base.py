"""Studies: a study has settings, and a setting is a preset with changes and strategies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.data.drift import NoDrift
from coterie.errors import ConfigError, suggest
from coterie.experiments.config import RunConfig, apply_changes
from coterie.experiments.presets import find_preset
from coterie.experiments.presets.preset import Preset, Variant

NUM_TESTS = 5
"""How often models are tested in a setting without drift; tests take long."""
DRIFT_TEST_EVERY = 10
"""Rounds between tests under drift, where the mean over time is compared."""
ALL_ROUNDS = {"patience": None, "best_by": "loss"}
"""All strategies run equally many rounds: no peer stops early, even if it does in the paper."""


@dataclass(frozen=True)
class Setting:
    """One column of a table: a preset with changes, and the strategies compared in it.

    Settings with the same folder share its runs, so that a run shown in two groups is run once.
    They must have the same preset and changes.
    """

    name: str
    group: str
    preset: str
    variants: tuple[Variant, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """The folder of its runs, in the study's folder; by default named like the setting."""
    is_published: bool = False
    """Whether runs are as in a paper, with its early stopping, to be compared with its numbers."""

    @property
    def folder_name(self) -> str:
        """The name of the folder of its runs."""
        return self.folder or self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the strategies, in order."""
        return tuple(variant.label for variant in self.variants)

    def runs(
        self,
        labels: Collection[str] | None,
        seeds: Sequence[int],
        changes: Mapping[str, Any],
        *,
        scale: float = 1.0,
    ) -> list[RunConfig]:
        """Return one configuration per seed and strategy; strategies of other settings are ignored.

        Options that none of these strategies has are ignored too: another setting may need them.
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
        config = apply_changes(preset.config, {**rounds, **self.changes})
        return Preset(preset.name, preset.summary, config, self.variants)

    def _tested(self, config: RunConfig, given: Collection[str]) -> RunConfig:
        """Return a configuration with its number of tests.

        Published results need one test: in the last round, by one rule for the best model.
        """
        every = DRIFT_TEST_EVERY
        if isinstance(config.drift, NoDrift):
            num_tests = 1 if self.is_published else NUM_TESTS
            every = max(1, math.ceil(config.rounds / num_tests))
        defaults = {"test_every": every, "compare_bests": not self.is_published}
        return apply_changes(config, {key: defaults[key] for key in defaults if key not in given})


@dataclass(frozen=True)
class Study:
    """A named list of settings."""

    name: str
    summary: str
    settings: tuple[Setting, ...]
    seeds: range = range(1, 4)
    """The seeds to run by default."""
    is_seed_by_seed: bool = False
    """Whether all runs with the first seed come before all runs with the second."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order."""
        return tuple(dict.fromkeys(setting.group for setting in self.settings))

    def chosen(self, only: Sequence[str] | None) -> list[Setting]:
        """Return the settings with these names or groups, in the study's order; by default all."""
        known = [*self.groups, *(setting.name for setting in self.settings)]
        for name in only or ():
            if name not in known:
                raise ConfigError(
                    f"--only {name}: the study {self.name} has no group or setting of this name."
                    f"{suggest(name, known)}"
                )
        return [each for each in self.settings if not only or {each.name, each.group} & {*only}]


@dataclass(frozen=True)
class FolderPlan:
    """The requested runs of one folder."""

    folder_name: str
    settings: tuple[str, ...]
    """The names of the settings that show these runs."""
    configs: tuple[RunConfig, ...]


def plan(
    settings: Sequence[Setting],
    labels: Sequence[str] | None,
    seeds: Sequence[int],
    changes: Mapping[str, Any],
    scale: float = 1.0,
) -> list[FolderPlan]:
    """Return the requested runs by folder; seeds vary slowest."""
    _check_requested(settings, labels, changes)
    folders: dict[str, dict[tuple[int, str], RunConfig]] = {}
    names: dict[str, list[str]] = {}
    for setting in settings:
        for config in setting.runs(labels, seeds, changes, scale=scale):
            found = folders.setdefault(setting.folder_name, {})
            found.setdefault((config.seed, config.label), config)
            names.setdefault(setting.folder_name, []).append(setting.name)
    return [
        FolderPlan(
            folder,
            tuple(dict.fromkeys(names[folder])),
            tuple(sorted(configs.values(), key=lambda config: config.seed)),
        )
        for folder, configs in folders.items()
    ]


def _check_requested(
    settings: Sequence[Setting], labels: Sequence[str] | None, changes: Mapping[str, Any]
) -> None:
    """Refuse strategies and options that none of the settings has."""
    variants = [variant for setting in settings for variant in setting.variants]
    known = {variant.label for variant in variants}
    for label in labels or ():
        if label not in known:
            raise ConfigError(
                f"--strategy {label}: no setting compares this strategy.{suggest(label, known)}"
            )
    requested = [variant for variant in variants if labels is None or variant.label in labels]
    for key in changes:
        if not any(variant.accepts(key) for variant in requested):
            options = {f"strategy.{name}" for variant in requested for name in variant.options()}
            raise ConfigError(f"--set {key}: no strategy has this option.{suggest(key, options)}")


def _closer_shifts(config: RunConfig, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the change that keeps all shifts of a drift if the number of rounds is changed."""
    if isinstance(config.drift, NoDrift) or "rounds" not in given or "drift.every" in given:
        return {}
    return {"drift.every": max(1, round(config.drift.every * given["rounds"] / config.rounds))}
