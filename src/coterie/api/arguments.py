"""Checks the arguments of `coterie.simulate`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from coterie.data.peer_arrays import PARTS, PeerData
from coterie.errors import ConfigError, DataError
from coterie.runtime.settings import SimulationSettings
from coterie.settings import parse_settings
from coterie.strategies import DEFAULT_STRATEGY, ServerStrategy, Strategy, make_strategy
from coterie.strategies.catalogue import check_options
from coterie.tasks import Task
from coterie.tasks.loss_names import LossFunction, LossName

AnyStrategy: TypeAlias = Strategy | ServerStrategy
Build: TypeAlias = Callable[[], nn.Module]
StrategyArgument: TypeAlias = (
    str | Mapping[str, Any] | AnyStrategy | Callable[[], AnyStrategy] | None
)
"""A name, a name with options, a strategy, or a function that returns one for each peer."""
SettingsArgument: TypeAlias = SimulationSettings | Mapping[str, Any] | None
PeerArgument: TypeAlias = PeerData | tuple[Any, ...] | Mapping[str, Any]
TaskArgument: TypeAlias = Task | LossName | LossFunction | None

_EXAMPLE = "such as lambda: nn.Linear(20, 2)"


def check_build(build: Build) -> Build:
    """Return `build`; raise a ConfigError unless it returns a new module at each call."""
    if isinstance(build, nn.Module):
        raise ConfigError(
            f"build is a module ({type(build).__name__}), but each peer needs its own. Give a "
            f"function that returns a new module, {_EXAMPLE}."
        )
    if not callable(build):
        raise ConfigError(
            f"build is {_describe(build)}, but must be a function that returns a new module, "
            f"{_EXAMPLE}."
        )
    _check_no_arguments("build", build, _EXAMPLE)
    module = build()
    if not isinstance(module, nn.Module):
        raise ConfigError(f"build() returned {_describe(module)}, but must return a torch module.")
    if build() is module:
        raise ConfigError(
            "build() returned the same module twice, but each peer needs its own. Create the "
            f"module inside the function, {_EXAMPLE}."
        )
    return build


def strategy_factory(strategy: StrategyArgument) -> Callable[[], AnyStrategy]:
    """Return a function that returns a new strategy for each peer."""
    match strategy:
        case None:
            return partial(make_strategy, DEFAULT_STRATEGY)
        case str():
            return partial(make_strategy, strategy)
        case Mapping():
            options = {key: value for key, value in strategy.items() if key != "name"}
            return partial(make_strategy, str(strategy.get("name", DEFAULT_STRATEGY)), options)
        case Strategy() | ServerStrategy():
            # Peers must not share the state of a strategy, so new ones get the options of this one.
            options = strategy.options()
            check_options(strategy)
            return partial(type(strategy), **{name: options[name] for name in strategy.given})
    if not callable(strategy):
        raise ConfigError(
            f"strategy is {_describe(strategy)}, but must be a name such as 'dac', {{'name': "
            "'dac', 'tau': 10}, a strategy class, or a function that returns a new strategy."
        )
    _check_no_arguments("strategy", strategy, "such as lambda: DAC(tau=10)")
    made = strategy()
    if not isinstance(made, Strategy | ServerStrategy):
        raise ConfigError(f"strategy() returned {_describe(made)}, but must return a strategy.")
    if strategy() is made:
        raise ConfigError(
            "strategy() returned the same strategy twice, but each peer needs its own. Create it "
            "inside the function, such as lambda: DAC(tau=10)."
        )
    check_options(made)
    return strategy


def check_settings(settings: SettingsArgument) -> SimulationSettings:
    """Return settings; a dict becomes `SimulationSettings`."""
    if settings is None:
        return SimulationSettings()
    if isinstance(settings, SimulationSettings):
        return settings
    if isinstance(settings, Mapping):
        return parse_settings(SimulationSettings, settings)
    raise ConfigError(
        f"settings is {_describe(settings)}, but must be SimulationSettings or a dict, such as "
        "{'rounds': 20}."
    )


def check_peers(peers: Iterable[PeerArgument]) -> list[PeerData]:
    """Return the peers' data; tuples and dicts of three parts become `PeerData`."""
    if isinstance(peers, PeerData):
        raise DataError("peers is a single PeerData. Give a list with one PeerData per peer.")
    if isinstance(peers, Mapping | str) or not isinstance(peers, Iterable):
        raise DataError(
            f"peers is {_describe(peers)}, but must be a list with one PeerData per peer."
        )
    return [_peer_data(number, peer) for number, peer in enumerate(peers)]


def _peer_data(number: int, peer: PeerArgument) -> PeerData:
    if isinstance(peer, PeerData):
        return peer
    if isinstance(peer, tuple | list) and len(peer) == len(PARTS):
        return PeerData(*peer)
    if isinstance(peer, tuple) and len(peer) == 2 and not all(map(_is_pair, peer)):
        return PeerData(train=peer)
    if isinstance(peer, Mapping) and set(peer) == set(PARTS):
        return PeerData(**peer)
    raise DataError(
        f"Peer {number} is {_describe(peer)}, but must be PeerData(train=…, validation=…, test=…). "
        "Each part is a pair (inputs, targets). A tuple of the three parts works too, a dict with "
        "their names, and a single pair (inputs, targets)."
    )


def _is_pair(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2


def check_task_argument(task: TaskArgument) -> Task | None:
    """Return the task; the name or function of a loss becomes a task."""
    if task is None or isinstance(task, Task):
        return task
    if isinstance(task, type) or not (isinstance(task, str) or callable(task)):
        raise ConfigError(
            f"task is {_describe(task)}, but must be a Task, such as Task('mse', score='mae'), the "
            "name of a loss, or a function that returns one loss per sample."
        )
    return Task(task)


def check_out(out: object, *, resume: bool) -> Path | None:
    """Return the folder of a run; None if it has none."""
    if out is None:
        if resume:
            raise ConfigError("resume=True needs the folder of the run: out='runs/mine'.")
        return None
    if not isinstance(out, str | os.PathLike):
        raise ConfigError(f"out is {_describe(out)}, but must be the path of a folder.")
    return Path(out).expanduser()


def check_threads(threads: int | None, default: int) -> int:
    """Return the number of threads."""
    if threads is None:
        return default
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ConfigError(f"threads is {threads!r}, but must be a whole number of at least 1.")
    return threads


def check_engine(engine: object, address: object, shards: object) -> str:
    """Return the engine; refuse arguments that do not go together."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"engine is {engine!r}. Use 'local' or 'ray'.")
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise ConfigError(f"shards is {shards!r}. Give a whole number of at least 1.")
    if engine == "local" and (address is not None or shards != 1):
        raise ConfigError("address and shards need engine='ray'.")
    return str(engine)


def _check_no_arguments(name: str, function: Callable[..., object], example: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some compiled functions have no signature
    try:
        signature.bind()
    except TypeError as error:
        raise ConfigError(
            f"{name} is called without arguments, but {getattr(function, '__name__', 'it')} needs "
            f"some ({error}). Wrap it in a function, {example}."
        ) from None


def _describe(value: object) -> str:
    """Return a short description of a value of a wrong type."""
    if value is None:
        return "None"
    if isinstance(value, str | int | float | bool):
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
