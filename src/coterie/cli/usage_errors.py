"""Errors on the command line: what was probably meant, and what to type instead."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from coterie.errors import ConfigError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The exception of typer for a wrong command line."""
OPTIONS = {
    "--lr": "training.learning_rate",
    "--eta": "training.learning_rate",
    "--local-epochs": "training.epochs",
    "--bs": "training.batch_size",
    "--batch": "training.batch_size",
    "--optim": "training.optimizer",
    "--wd": "training.weight_decay",
    "--model": "model.name",
    "--arch": "model.name",
    "--dataset": "data.datasets",
    "--datasets": "data.datasets",
    "--data": "data.datasets",
    "--fetches": "strategy.fetches",
    "--neighbours": "strategy.fetches",
    "--neighbors": "strategy.fetches",
    "--clusters": "peers.clusters",
    "--drift": "drift.kind",
    "--shift": "shift.kind",
    "--poison": "poison.kind",
    "--attack": "poison.kind",
}
"""Options of other programs, and the settings of Coterie with this meaning."""
INSTEAD = {
    "--strategies": "--strategy A,B",
    "--algorithm": "--strategy NAME",
    "--method": "--strategy NAME",
    "--output": "--out FOLDER",
    "--output-dir": "--out FOLDER",
    "-o": "--out FOLDER",
    "--folder": "--out FOLDER",
    "--gpu": "--device cuda",
    "--cuda": "--device cuda",
    "--cpu": "--device cpu",
    "--workers": "--threads N",
    "--num-workers": "--threads N",
    "--jobs": "--threads N",
    "-j": "--threads N",
    "--clients": "--peers N",
    "--num-clients": "--peers N",
    "--num-peers": "--peers N",
    "--nodes": "--peers N",
    "-n": "--peers N",
    "--iterations": "--rounds N",
    "--num-rounds": "--rounds N",
    "-r": "--rounds N",
    "-s": "--seed N",
    "--live": "--watch",
}
"""Options of other programs, and the options of Coterie with this meaning."""
COMMANDS = {
    "help": "coterie --help",
    "version": "coterie --version",
    "train": "coterie run PRESET",
    "simulate": "coterie run PRESET",
    "start": "coterie run PRESET",
    "continue": "coterie resume FOLDER",
    "plot": "coterie figures FOLDER, or coterie report FOLDER",
    "html": "coterie report FOLDER",
    "show": "coterie report FOLDER",
    "download": "coterie data",
    "presets": "coterie list",
    "strategies": "coterie list",
    "models": "coterie list",
    "datasets": "coterie data",
}
"""Commands of other programs, and the commands of Coterie with this meaning."""


def explain_usage_error(error: Exception) -> ConfigError:
    """Return an error that says what to type instead."""
    context: Any = getattr(error, "ctx", None)
    command = _typed_command(context)
    message = str(getattr(error, "message", error))
    help_text = f"See {command} --help."
    kind = type(error).__name__
    if kind == "NoSuchOption":
        advice = _about_option(str(getattr(error, "option_name", "")), context, command)
        return ConfigError(f"{message}. {advice or help_text}")
    if unknown := re.match(r"No such command '(.+?)'", message):
        advice = _about_command(unknown[1], command, sorted(context.command.commands))
        return ConfigError(f"There is no command '{unknown[1]}'. {advice or help_text}")
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        advice = _about_extra(extra[1].split(), context.info_name, command)
        return ConfigError(f"Unexpected argument: {extra[1]}. {advice or help_text}")
    if kind == "MissingParameter":
        return ConfigError(_about_missing(error, help_text))
    if kind == "BadParameter":
        return ConfigError(_about_value(error, message, help_text))
    return ConfigError(f"{message.rstrip('.')}. {help_text}")


def _typed_command(context: Any) -> str:
    """Return the command as users type it, such as `coterie run`."""
    if context is None:
        return " ".join(["coterie", *sys.argv[1:2]])
    words = str(context.command_path).split()
    first = next((place for place, word in enumerate(words) if word in _commands(context)), None)
    return " ".join(["coterie", *(words[first:] if first is not None else [])])


def _commands(context: Any) -> Iterable[str]:
    root = context.find_root().command
    return getattr(root, "commands", {})


def _options(context: Any) -> list[str]:
    return [name for param in context.command.params for name in param.opts if name[0] == "-"]


def _about_option(name: str, context: Any, command: str) -> str:
    """Return what to type instead of an option that does not exist."""
    if command == "coterie":
        return "Options come after the command, such as coterie run digits --rounds 10."
    if name in ("--config", "-c"):
        return "Give the file instead of a preset: coterie run FILE.yaml."
    if name == "--preset":
        return f"Give the preset without an option: {command} digits."
    known = _options(context)
    if name in INSTEAD and INSTEAD[name].split()[0] in known:
        return f"Did you mean {INSTEAD[name]}?"
    if (key := OPTIONS.get(name) or _setting(name)) and "--set" in known:
        value = "[…]" if key == "data.datasets" else "…"
        more = f", or --vary {key}=…,…" if "--vary" in known else ""
        return f"Did you mean --set {key}={value}{more}?"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"Did you mean {close[0]}?" if close else ""


def _setting(option: str) -> str | None:
    """Return the dotted key of the setting with the name of an option."""
    from coterie.experiments.config import RunConfig
    from coterie.settings import find_keys

    found = find_keys(RunConfig, option.lstrip("-").replace("-", "_"))
    return found[0] if found else None


def _about_command(name: str, command: str, commands: Sequence[str]) -> str:
    """Return what to type instead of a command that does not exist."""
    if command != "coterie":
        return _nearest(name, commands)
    if name in COMMANDS:
        return f"Did you mean {COMMANDS[name]}?"
    if Path(name).is_dir():
        return f"Did you mean coterie report {name}, or coterie resume {name}?"
    if Path(name).suffix in (".yaml", ".yml", ".csv", ".parquet"):
        return f"Did you mean coterie run {name}?"
    close = difflib.get_close_matches(name.lower(), commands, n=1, cutoff=0.7)
    if close:
        return f"Did you mean '{close[0]}'?"
    return _as_argument(name) or _nearest(name, commands)


def _nearest(name: str, commands: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), commands, n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Known: {', '.join(commands)}."


def _as_argument(name: str) -> str:
    """Return how to run a preset, a study or a strategy that was typed as a command."""
    from coterie.experiments.presets import PRESETS
    from coterie.strategies import STRATEGIES
    from coterie.studies.study_list import STUDIES

    if name in PRESETS:
        return f"Did you mean coterie run {name}?"
    if name in STRATEGIES:
        return f"Did you mean coterie run digits --strategy {name}?"
    return f"Did you mean coterie study {name}?" if name in STUDIES else ""


def _about_extra(words: Sequence[str], name: str, command: str) -> str:
    """Return what to type instead of arguments that a command does not have."""
    from coterie.strategies import STRATEGIES

    if name == "swarm":
        return f"Did you mean coterie swarm --preset {words[0]}?"
    if name in ("run", "sweep"):
        if all("=" in word for word in words):
            return f"Did you mean --set {words[0]}?"
        if all(word.strip(",") in STRATEGIES for word in words):
            return f"Separate strategies with commas: --strategy {','.join(_strategies(words))}."
        return f"Only one preset can be run at a time. See {command} --help."
    if name in ("list", "data"):
        more = " Datasets are downloaded when they are used." if name == "data" else ""
        return f"Type {command} without arguments.{more}"
    return ""


def _strategies(words: Sequence[str]) -> list[str]:
    """Return the strategies that were probably meant, with those after --strategy."""
    typed = sys.argv
    place = typed.index("--strategy") + 1 if "--strategy" in typed else len(typed)
    return [word.strip(",") for word in (*typed[place : place + 1], *words)]


def _about_missing(error: Any, help_text: str) -> str:
    """Return which argument is missing, and its meaning."""
    param = error.param
    if "--vary" in param.opts:
        return (
            "Missing option '--vary': give a setting and its values, such as "
            "--vary training.learning_rate=0.001,0.0003."
        )
    name = param.metavar or str(param.name).upper()
    option = param.opts[0]
    missing = f"option '{option} {name}'" if option[0] == "-" else f"argument '{name}'"
    meaning = f": {param.help.rstrip('.')}" if getattr(param, "help", None) else ""
    return f"Missing {missing}{meaning}. {help_text}"


def _about_value(error: Any, message: str, help_text: str) -> str:
    """Return which value of an option cannot be used, and what was expected."""
    expected = re.sub(
        r"Input should be a valid (integer|number).*", r"expected a \1", message
    ).replace("a integer", "a whole number")
    expected = re.sub(r"Value error, '.*' is not one of", "expected one of", expected)
    expected = re.sub(r"Input should be", "expected a value", expected)
    name = (error.param_hint or error.param.opts[0]) if error.param else ""
    given = f"{name} {_given(str(name))}".strip()
    return f"{given} cannot be used: {expected.rstrip('.')}. {help_text}"


def _given(option: str) -> str:
    """Return the value that was typed after an option; if it was typed twice, the last one."""
    given = ""
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        if word == option:
            given = following
        elif word.startswith(f"{option}="):
            given = word.partition("=")[2]
    return given
