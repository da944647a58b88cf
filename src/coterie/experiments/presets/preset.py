"""Presets: a full configuration, and the strategies that it compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.errors import ConfigError, only_peers, suggest
from coterie.experiments.config import RunConfig, apply_changes
from coterie.experiments.presets.scaling import check_scale, is_given, scaled_settings
from coterie.runtime.size_limits import check_number_of_runs
from coterie.strategies import ServerStrategy, Strategy, make_strategy
from coterie.strategies.options import PEER_COUNTS


@dataclass(frozen=True)
class Variant:
    """One line of a comparison: a strategy with its options and its own settings."""

    label: str
    strategy: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    def accepts(self, key: str) -> bool:
        """Whether a changed setting applies: not if it is an option that the strategy lacks."""
        group, _, option = key.partition(".")
        return group != "strategy" or not option or option in self.options()

    def options(self) -> dict[str, Any]:
        """Return all options of the strategy, with their defaults."""
        return make_strategy(self.strategy["name"]).options()


@dataclass(frozen=True)
class Preset:
    """A named experiment; `config.strategy` holds the number of fetches m of all strategies."""

    name: str
    summary: str
    config: RunConfig
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...] = (0,)
    """The seeds to run by default."""

    def choose_seeds(self, first: int | None, count: int | None) -> Sequence[int]:
        """Return the requested seeds, or the preset's own."""
        if first is None and count is None:
            return self.seeds
        begin = self.seeds[0] if first is None else first
        return range(begin, begin + (count or 1))

    def runs(
        self,
        labels: Sequence[str] | None,
        seeds: Sequence[int],
        changes: Mapping[str, Any],
        *,
        scale: float = 1.0,
    ) -> list[RunConfig]:
        """Return one configuration per strategy and seed; seeds vary slowest.

        A scale below 1 shrinks rounds and peers, see `scaling`; changed settings are not scaled.
        A strategy that would fetch from more peers than there are fetches from all of them.
        """
        check_scale(scale)
        labelled = labels or self.variants
        check_number_of_runs(
            len(labelled) * len(seeds), f"{len(labelled)} strategies with {len(seeds):,} seeds"
        )
        variants = self.compared(labels)
        _check_options(variants, changes)
        configs = [
            _lower_peer_counts(self._configured(each, changes, scale), changes) for each in variants
        ]
        return [apply_changes(config, {"seed": seed}) for seed in seeds for config in configs]

    def describe_lowered_options(self, configs: Sequence[RunConfig]) -> list[str]:
        """List options that are lower than in the preset because there are too few peers."""
        notes: dict[int, dict[str, None]] = {}
        for config in configs:
            (variant,) = self.compared([config.label])
            most = _strategy_of(config).most_peers(config.peers.count)
            for option in sorted(PEER_COUNTS & variant.strategy.keys()):
                before, now = variant.strategy[option], config.strategy[option]
                if before > now == most:
                    lowered = f"strategy.{option} = {now} instead of {before}"
                    notes.setdefault(config.peers.count, {})[lowered] = None
        return [f"{only_peers(count)}: {', '.join(lowered)}." for count, lowered in notes.items()]

    def compared(self, labels: Sequence[str] | None) -> Sequence[Variant]:
        """Return the variants with these labels; by default all of the preset."""
        return [self._variant(label) for label in labels] if labels else self.variants

    def labels_with(self, more: Sequence[str]) -> list[str]:
        """Return the labels of the preset's variants, and of more strategies."""
        return list(dict.fromkeys([*(variant.label for variant in self.variants), *more]))

    def _configured(self, variant: Variant, changes: Mapping[str, Any], scale: float) -> RunConfig:
        """Return the configuration of a variant, with the changes that apply to it."""
        own = {"label": variant.label, "strategy": dict(variant.strategy), **variant.changes}
        given = {key: value for key, value in changes.items() if variant.accepts(key)}
        wanted = apply_changes(self.config, {**own, **given})
        if scale == 1:
            return wanted
        preset = apply_changes(self.config, own)
        smaller = scaled_settings(preset, wanted, given, scale, self._fewest_fetches())
        return apply_changes(self.config, {**own, **smaller, **given})

    def _fewest_fetches(self) -> int:
        """Return the smallest number of fetches of all variants that have no samples."""
        options = [{**variant.options(), **variant.strategy} for variant in self.variants]
        return min(
            [each["fetches"] for each in options if each.get("fetches") and "samples" not in each],
            default=1,
        )

    def _variant(self, label: str) -> Variant:
        """Return the preset's variant of this label, or the strategy with default options."""
        for variant in self.variants:
            if variant.label == label:
                return variant
        return default_variant(label, self.config.strategy.get("fetches"))


def _strategy_of(config: RunConfig) -> Strategy | ServerStrategy:
    return make_strategy(config.strategy["name"], config.strategy_options())


def _lower_peer_counts(config: RunConfig, given: Mapping[str, Any]) -> RunConfig:
    """Lower counts of peers in the strategy to the number of peers, unless the user set them."""
    most = _strategy_of(config).most_peers(config.peers.count)
    changes = {
        f"strategy.{option}": most
        for option in PEER_COUNTS & config.strategy.keys()
        if config.strategy[option] > most and not is_given(f"strategy.{option}", given)
    }
    return apply_changes(config, changes) if changes else config


def default_variant(name: str, fetches: int | None = None) -> Variant:
    """Return a strategy with default options, except for the number of fetches."""
    options = make_strategy(name).options()
    if fetches is not None and "fetches" in options:
        options["fetches"] = fetches
    return Variant(name, {"name": name, **options})


def baselines(fetches: int, *, local_learning_rate: float | None = None) -> tuple[Variant, ...]:
    """Return Local, Random and Oracle; Local may have a different learning rate."""
    slower = {} if local_learning_rate is None else {"training.learning_rate": local_learning_rate}
    return (
        Variant("local", {"name": "local"}, slower),
        default_variant("random", fetches),
        default_variant("oracle", fetches),
    )


def _check_options(variants: Sequence[Variant], changes: Mapping[str, Any]) -> None:
    """Refuse options that none of the compared strategies has."""
    for key in changes:
        if key not in RunConfig.model_fields and any(key in each.options() for each in variants):
            raise ConfigError(f"There is no setting '{key}'. Did you mean strategy.{key}?")
        if not any(variant.accepts(key) for variant in variants):
            option = key.removeprefix("strategy.")
            known = {name for variant in variants for name in variant.options()}
            names = ", ".join(variant.label for variant in variants)
            lacks = (
                f"None of the strategies {names} has the option"
                if len(variants) > 1
                else f"The strategy {names} has no option"
            )
            raise ConfigError(f"{lacks} '{option}'.{suggest(option, known)}")


def presets_by_name(presets: Sequence[Preset]) -> dict[str, Preset]:
    """Return presets by name; refuse two with the same name."""
    by_name = {preset.name: preset for preset in presets}
    if len(by_name) != len(presets):
        raise ConfigError("Two presets have the same name.")
    return by_name
