"""Finds the published numbers for runs, and how the runs differ from the published setting."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coterie.experiments.config import RunConfig
from coterie.experiments.presets import PRESETS
from coterie.experiments.presets.preset import Preset
from coterie.experiments.published import published_tables
from coterie.experiments.published.published_table import PublishedComparison, PublishedTable

NO_INFLUENCE = frozenset(
    {"preset", "label", "seed", "test_every", "compare_bests", "checkpoint_every", "watch"}
)
"""Settings that change no final result, or that are compared elsewhere."""


def compare_with_published(configs: Sequence[RunConfig]) -> PublishedComparison | None:
    """Return the published numbers for an experiment, or None if there are none.

    They follow from the configurations alone, so it does not matter if runs were resumed or copied.
    """
    preset = PRESETS.get(configs[0].preset)
    table = published_tables().get(configs[0].preset)
    if preset is None or table is None:
        return None
    compared = [config for config in configs if config.label in table.results]
    if not compared:
        return None
    found = (departure for config in compared for departure in list_departures(config, preset))
    labels = [config.label for config in compared]
    return PublishedComparison(
        table, (*dict.fromkeys(found), *describe_missing_seeds(labels, table))
    )


def list_departures(config: RunConfig, preset: Preset) -> list[str]:
    """Return how a run differs from its preset, in a few words for each setting.

    The run's label must be one of the preset's variants or a strategy.
    """
    [expected] = preset.runs([config.label], [config.seed], {})
    return list_differences(expected, config)


def list_differences(expected: RunConfig, actual: RunConfig) -> list[str]:
    """Return how two configurations differ, in settings that can change results."""
    return list(_differences(influential_settings(expected), influential_settings(actual), ""))


def influential_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that can change results, as plain data."""
    settings = config.model_dump(mode="json", exclude=set(NO_INFLUENCE))
    # The places of files, and the trainer and device, are not compared.
    del settings["data"]["root"]
    for name in ("trainer", "device", "peers_at_once"):
        del settings["training"][name]
    settings["model"]["pretrained"] = config.model.pretrained is not None
    return settings


def _differences(expected: dict[str, Any], actual: dict[str, Any], group: str) -> Iterator[str]:
    if expected.get("kind") != actual.get("kind"):
        # Another kind has other settings, so only the kind is named.
        yield _difference(f"{group}kind", expected.get("kind"), actual.get("kind"))
        return
    for key in dict.fromkeys([*expected, *actual]):
        before, now = expected.get(key), actual.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _differences(before, now, f"{group}{key}.")
        elif before != now:
            yield _difference(f"{group}{key}", before, now)


def _difference(name: str, before: Any, now: Any) -> str:
    if name == "rounds" and now < before:
        return describe_shortening(now, before)
    if name == "peers.count" and now < before:
        return f"{now} of {before} peers"
    return f"{name} {_written(now)} instead of {_written(before)}"


def describe_shortening(rounds: int, published: int) -> str:
    """Return the words for a run with fewer rounds."""
    return f"shortened: {rounds} of {published} rounds"


def _written(value: Any) -> str:
    """Return a value as in JSON, but text without quotes and whole numbers without decimals."""
    if isinstance(value, str):
        return value
    return re.sub(r"\.0(?!\d)", "", json.dumps(value, ensure_ascii=False))


def describe_missing_seeds(labels: Iterable[str], table: PublishedTable) -> list[str]:
    """Return the words for fewer seeds than published; a label is named once for each seed."""
    fewest = min(Counter(labels).values())
    if table.seeds is None or fewest >= table.seeds:
        return []
    return [f"{fewest} of {table.seeds} seeds"]
