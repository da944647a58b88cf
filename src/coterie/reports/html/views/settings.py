"""The settings of the runs: the few that matter most in words, all of them as YAML."""

from __future__ import annotations

from typing import Any

import yaml

from coterie.experiments.config import RunConfig
from coterie.experiments.presets import PRESETS
from coterie.reports.html.subjects import Subject
from coterie.reports.html.views.view_parts import Json
from coterie.results.read_runs import describe_poison
from coterie.strategies import STRATEGIES


def settings(subject: Subject) -> Json:
    """Return facts as [name, value], strategies with what they do, and each one's YAML."""
    return {
        "facts": _facts(subject),
        "strategies": [
            {"label": label, "about": _about(runs[0].config), "yaml": _yaml(runs[0].config)}
            for label, runs in subject.by_label.items()
        ],
    }


def _facts(subject: Subject) -> list[list[str]]:
    config = subject.config
    preset = PRESETS.get(config.preset)
    training = config.training
    return [
        ["preset", f"{config.preset}{f': {preset.summary}' if preset else ''}"],
        ["data", ", ".join(config.data.datasets)],
        ["how clusters differ", f"{config.shift.kind}: {', '.join(subject.cluster_names)}"],
        ["how data change", _kind(config.drift)],
        ["peers", f"{config.peers.count:,}, with {config.peers.train_size} training samples each"],
        ["model", config.model.name],
        ["rounds", f"{max(run.config.rounds for run in subject.runs)}"],
        [
            "training",
            f"{training.epochs} epochs a round, batches of {training.batch_size}, learning rate "
            f"{training.learning_rate:g}",
        ],
        ["seeds", ", ".join(str(seed) for seed in subject.seeds)],
        *(["poisoned peers", told] for told in describe_poison(subject.by_label)),
        *([["run by", _runtime(config)]] if config.runtime == "network" else []),
    ]


def _runtime(config: RunConfig) -> str:
    pace = "each at its own pace" if config.swarm.own_pace else "in aligned rounds"
    return f"real peers over a network, {pace}"


def _kind(drift: Any) -> str:
    plain = drift.model_dump(mode="json")
    kind = plain.pop("kind")
    if kind == "none":
        return "not at all"
    return str(kind) + "".join(f", {key} {value}" for key, value in plain.items())


def _about(config: RunConfig) -> str:
    name = config.strategy["name"]
    return STRATEGIES[name].summary if name in STRATEGIES else ""


def _yaml(config: RunConfig) -> str:
    """Return the settings of a strategy's runs; seed and where files lie are left out."""
    plain = config.model_dump(mode="json", exclude={"seed"})
    plain["data"].pop("root", None)
    plain["model"].pop("pretrained", None)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
