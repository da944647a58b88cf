"""The settings of the runs: the main ones as a list, all of them as YAML."""

from __future__ import annotations

from typing import Any

import yaml

from coterie.experiments.config import RunConfig
from coterie.experiments.presets import PRESETS
from coterie.reports.html.run_groups import RunGroup
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import describe_poison
from coterie.strategies import STRATEGIES


def build_settings(group: RunGroup) -> Json:
    """Return facts as [name, value]; and for each strategy its summary and YAML."""
    return {
        "facts": _facts(group),
        "strategies": [
            {
                "label": label,
                "about": _describe_strategy(runs[0].config),
                "yaml": _yaml(runs[0].config),
            }
            for label, runs in group.runs_by_label.items()
        ],
    }


def _facts(group: RunGroup) -> list[list[str]]:
    config = group.config
    preset = PRESETS.get(config.preset)
    training = config.training
    return [
        ["preset", f"{config.preset}{f': {preset.summary}' if preset else ''}"],
        ["data", ", ".join(config.data.datasets)],
        *_about_peers(group),
        ["peers", f"{config.peers.count:,}, with {config.peers.train_size} training samples each"],
        ["model", config.model.name],
        ["rounds", f"{max(run.config.rounds for run in group.runs)}"],
        [
            "training",
            f"{training.epochs} epochs a round, batches of {training.batch_size}, learning rate "
            f"{training.learning_rate:g}",
        ],
        ["seeds", ", ".join(str(seed) for seed in group.seeds)],
        *(["poisoned peers", text] for text in describe_poison(group.runs_by_label)),
        *([["run by", _describe_runtime(config)]] if config.runtime == "network" else []),
    ]


def _about_peers(group: RunGroup) -> list[list[str]]:
    """Return what differs between peers, and when it changes."""
    config = group.config
    if config.data.files is None:
        return [
            ["how clusters differ", f"{config.shift.kind}: {', '.join(group.cluster_names)}"],
            ["how data change", _describe_drift(config.drift)],
        ]
    columns = config.data.files.model_dump(mode="json", exclude={"kind", "path", "sha256"})
    given = {key: value for key, value in columns.items() if value not in (None, [])}
    return [
        ["whose data", ", ".join(f"{key}: {_listed(value)}" for key, value in given.items())],
        ["file", f"{config.data.files.path.name}, SHA-256 {config.data.files.sha256}"],
    ]


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _describe_runtime(config: RunConfig) -> str:
    pace = "each at its own pace" if config.swarm.own_pace else "in aligned rounds"
    return f"real peers over a network, {pace}"


def _describe_drift(drift: Any) -> str:
    plain = drift.model_dump(mode="json")
    name = plain.pop("kind")
    if name == "none":
        return "not at all"
    return str(name) + "".join(f", {key} {value}" for key, value in plain.items())


def _describe_strategy(config: RunConfig) -> str:
    name = config.strategy["name"]
    return STRATEGIES[name].summary if name in STRATEGIES else ""


def _yaml(config: RunConfig) -> str:
    """Return the settings of a strategy's runs, without the seed and the paths of files."""
    plain = config.model_dump(mode="json", exclude={"seed"})
    plain["data"].pop("root", None)
    plain["model"].pop("pretrained", None)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
