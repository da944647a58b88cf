"""The record of what presets take from text, code or a guess: whole, and equal to the presets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT

from coterie.experiments.presets import PRESETS, find_preset

PAGE = (ROOT / "docs" / "decisions" / "0013-what-presets-take.md").read_text()
SECTIONS = {
    paper: next(part for part in PAGE.split("\n## ")[1:] if name in part.partition("\n")[0])
    for paper, name in {
        "dac": "Listo Zec",
        "hast": "Toftås",
        "friends": "Hagander",
        "pens": "Onoszko",
    }.items()
}
OF_PAPERS = [name for name in PRESETS if not name.startswith(("digits", "natural"))]
# Data, partition, peers, rounds, batch, optimiser, learning rate, epochs, models, early stopping,
# and which model is tested.
WANTED = (
    "data.datasets",
    "shift",
    "drift",
    "peers.count",
    "peers.clusters",
    "peers.train_size",
    "peers.validation_size",
    "peers.sizes.kind",
    "rounds",
    "training.batch_size",
    "training.optimizer",
    "training.learning_rate",
    "training.epochs",
    "model.name",
    "initialisation",
    "patience",
    "best",
    "best_by",
    "schedule",
    "strategy.fetches",
)
OTHERS = "the others"


def rows(text: str, first: str) -> list[list[str]]:
    """Return the lines of the table whose first column has a title, without code marks."""
    table = text[text.index(f"| {first} |") :].partition("\n\n")[0]
    cells = [line.strip("| ").split(" |") for line in table.splitlines()[2:]]
    return [[cell.strip().strip("`") for cell in line] for line in cells]


def found_in(config: Any, key: str) -> Any:
    """Return a setting as plain data, without what is not given."""
    value = config.model_dump(mode="json")
    for part in key.split("."):
        value = value[part]
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if each is not None}
    return Path(value).name if key == "model.pretrained" and value else value


def paper_of(preset: str) -> str:
    return preset.partition("-")[0]


@pytest.mark.parametrize("preset", OF_PAPERS)
def test_every_setting_of_a_preset_stands_there_once(preset):
    told: dict[str, list[str]] = {}
    named: dict[str, set[str]] = {}
    lines = rows(SECTIONS[paper_of(preset)], "setting")
    for key, _, presets, *_ in lines:
        named.setdefault(key, set()).update(presets.split(", "))
    for key, value, presets, *_ in lines:
        is_other = presets == OTHERS and preset not in named[key]
        if presets == "all" or is_other or preset in presets.split(", "):
            told.setdefault(key, []).append(value)
    config = find_preset(preset).config
    assert {key: len(values) for key, values in told.items() if len(values) > 1} == {}
    for key in WANTED:
        assert key in told or f"{key}.kind" in told, key
    for key, (value,) in told.items():
        assert yaml.safe_load(value) == found_in(config, key), key


@pytest.mark.parametrize("paper", SECTIONS)
def test_the_values_of_strategies_are_those_of_the_presets(paper):
    presets = [name for name in OF_PAPERS if paper_of(name) == paper]
    for labels, key, value, where, *_ in rows(SECTIONS[paper], "strategies"):
        named = presets if where == "all" else where.split(", ")
        assert {*named} <= {*presets}
        compared = [
            config
            for name in named
            for config in find_preset(name).runs(None, [0], {})
            if config.label in labels.split(", ")
        ]
        assert {config.label for config in compared} == {*labels.split(", ")}
        for config in compared:
            assert found_in(config, key) == yaml.safe_load(value), (config.preset, config.label)


def test_every_temperature_of_the_thesis():
    found = {}
    for preset, *cells in rows(SECTIONS["friends"], "preset"):
        labels = [
            f"dac-{metric}{end}"
            for metric in (
                "inverse-loss",
                "cosine-gradients",
                "cosine-weights",
                "inverse-distance",
            )
            for end in ("", "-fedsim")
        ]
        runs = find_preset(preset).runs(labels, [0], {})
        taus = [float(tau) for cell in cells for tau in cell.split(" / ")]
        assert [config.strategy["tau"] for config in runs] == taus
        found[preset] = taus
    with_dac = {
        name
        for name in OF_PAPERS
        if any(variant.label == "dac-inverse-loss" for variant in PRESETS[name].variants)
    }
    assert found.keys() == with_dac


def test_every_value_names_its_source_and_the_first_table_those_beside_the_text():
    first = {line[0]: line[1:] for line in rows(PAGE, "paper")}
    for text in SECTIONS.values():
        by_source: dict[str, set[str]] = {}
        for line in rows(text, "setting"):
            by_source.setdefault(line[3], set()).add(line[0])
        for line in rows(text, "strategies"):
            by_source.setdefault(line[4], set()).add(line[1])
        assert by_source.keys() <= {"text", "code", "guess"}
        told = first[text.partition("\n")[0]]
        for source, cell in zip(("code", "guess"), told, strict=True):
            assert set(re.findall(r"[\w.]+", cell)) == by_source.get(source, set())
