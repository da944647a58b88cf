"""Sweeps: every combination of some settings, for every strategy that has them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from coterie.errors import ConfigError
from coterie.experiments.config import RunConfig, scenario_key
from coterie.experiments.presets.preset import Preset, Variant
from coterie.storage.yaml_text import parse_yaml

MAX_RUNS = 1000
MAX_NAME = 40
"""The most characters of a value in a folder's name."""
_INSTEAD = {
    "seed": "choose seeds with --seed and --seeds",
    "label": "choose strategies with --strategy",
    "preset": "name another preset",
    "strategy": "compare strategies with --strategy",
    "strategy.name": "compare strategies with --strategy",
}


def parse_vary(texts: Sequence[str], changes: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Read `dotted.key=value,value,…` texts, where each value is YAML."""
    varied: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(
                f"--vary {text}: expected dotted.key=value,value,…, such as "
                "training.learning_rate=0.001,0.0003."
            )
        if key in _INSTEAD:
            raise ConfigError(f"--vary {key}: {_INSTEAD[key]} instead.")
        if key in varied:
            raise ConfigError(f"--vary {key} is given twice. Give all its values in one --vary.")
        if key in changes:
            raise ConfigError(
                f"'{key}' is varied and also set to {changes[key]!r}. Remove one of the two."
            )
        varied[key] = _parse_values(text, values)
    return varied


def _parse_values(text: str, values: str) -> list[Any]:
    try:
        # The inside of a YAML list, so that lists and groups can be values too.
        parsed = parse_yaml(f"[{values}]")
    except ValueError:
        raise ConfigError(
            f"--vary {text}: the values are not valid YAML. Write them as value,value,…, such as "
            "1,5,10 or [0, 90],[0, 180]."
        ) from None
    if not isinstance(parsed, list) or not parsed:
        raise ConfigError(f"--vary {text}: there are no values. Write them as value,value,…")
    return parsed


def plan_sweep(
    preset: Preset,
    labels: Sequence[str] | None,
    seeds: Sequence[int],
    changes: Mapping[str, Any],
    varied: Mapping[str, list[Any]],
    scale: float = 1.0,
) -> tuple[list[RunConfig], list[str]]:
    """Return the configuration and the folder's name of every run.

    A strategy that lacks an option runs once, not once per value. Seeds vary slowest. Runs on the
    same data follow one another.
    """
    variants = preset.compared(labels)
    _check_number(variants, varied, len(seeds))
    # Planning with the first values finds unknown keys, and options that no strategy has.
    first = {key: values[0] for key, values in varied.items()}
    preset.runs(labels, seeds[:1], {**changes, **first}, scale=scale)
    configs = [
        config
        for variant in variants
        for chosen in _combinations(variant, varied)
        for config in preset.runs(
            [variant.label], seeds, _accepted(variant, {**changes, **chosen}), scale=scale
        )
    ]
    _check_distinct(configs, varied)
    configs.sort(key=lambda config: config.seed)
    positions = {key: n for n, key in enumerate(dict.fromkeys(map(scenario_key, configs)))}
    configs.sort(key=lambda config: positions[scenario_key(config)])
    return configs, _unique([_name(config, list(varied)) for config in configs])


def setting_text(config: RunConfig, key: str) -> str | None:
    """Return a setting as text; None if the configuration lacks it."""
    place: Any = config.model_dump(mode="json")
    for part in key.split("."):
        if not isinstance(place, dict) or part not in place:
            return None
        place = place[part]
    return one_line_yaml(place)


def one_line_yaml(value: Any) -> str:
    """Return a value as YAML in one line; 5.0 as 5."""
    text = yaml.safe_dump(_plain(value), default_flow_style=True, width=math.inf)
    return str(text).removesuffix("...\n").strip()


def _plain(value: Any) -> Any:
    """Return a value in which whole floats are integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _combinations(variant: Variant, varied: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    mine = _accepted(variant, varied)
    return [dict(zip(mine, chosen, strict=True)) for chosen in itertools.product(*mine.values())]


def _accepted(variant: Variant, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if variant.accepts(key)}


def _check_number(
    variants: Sequence[Variant], varied: Mapping[str, list[Any]], num_seeds: int
) -> None:
    each = [math.prod(map(len, _accepted(variant, varied).values())) for variant in variants]
    count = sum(each) * num_seeds
    if count > MAX_RUNS:
        sizes = " × ".join(f"{len(values)} of {key}" for key, values in varied.items())
        raise ConfigError(
            f"This sweep has {count:,} runs ({sizes}, {len(variants)} strategies, {num_seeds} "
            f"seeds), but at most {MAX_RUNS:,} are possible. Vary less, or split it into several."
        )


def _check_distinct(configs: Sequence[RunConfig], varied: Mapping[str, list[Any]]) -> None:
    """Refuse values that are equal, such as 1 and 1.0."""
    for key, values in varied.items():
        different = {setting_text(config, key) for config in configs} - {None}
        if len(different) < len(values):
            given = ", ".join(map(one_line_yaml, values))
            raise ConfigError(
                f"--vary {key}: two of the values {given} are equal. Give each value once."
            )


def _name(config: RunConfig, keys: Sequence[str]) -> str:
    """Return a readable name for the folder of a run, such as dac-tau=5-seed0."""
    last = [key.rpartition(".")[2] for key in keys]
    parts = [config.label]
    for key, short in zip(keys, last, strict=True):
        value = setting_text(config, key)
        if value is not None:
            readable = re.sub(r"[^\w.+-]+", "_", value).strip("_")[:MAX_NAME]
            parts.append(f"{short if last.count(short) == 1 else key}={readable}")
    return "-".join([*parts, f"seed{config.seed}"])


def _unique(names: Sequence[str]) -> list[str]:
    """Number names that are equal, such as of long lists."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
    return result
