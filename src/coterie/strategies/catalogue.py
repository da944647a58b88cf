"""The catalogue of strategies: commands, presets and tests find them here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from coterie.errors import ConfigError, simplify, suggest
from coterie.settings import check_integers
from coterie.strategies.dac import DAC
from coterie.strategies.delusional_oracle import DelusionalOracle
from coterie.strategies.gossip import Gossip
from coterie.strategies.greedy import Greedy
from coterie.strategies.hast import HAST
from coterie.strategies.kin.kin import Kin
from coterie.strategies.local import Local
from coterie.strategies.oracle import Oracle
from coterie.strategies.panm import PANM
from coterie.strategies.pens import PENS
from coterie.strategies.random import Random
from coterie.strategies.random_weighted import RandomWeighted
from coterie.strategies.server.central import Central
from coterie.strategies.server.fedavg import FedAvg
from coterie.strategies.server.ifca import IFCA
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy

STRATEGIES: dict[str, type[Strategy] | type[ServerStrategy]] = {
    strategy.name: strategy
    for strategy in (
        Local,
        Random,
        Oracle,
        Gossip,
        DAC,
        Greedy,
        RandomWeighted,
        PENS,
        PANM,
        HAST,
        Kin,
        DelusionalOracle,
        FedAvg,
        IFCA,
        Central,
    )
}
DEFAULT_STRATEGY = Kin.name
"""The strategy of simulations and peers if none is named."""


@cache
def _checker(kind: type[Any]) -> TypeAdapter[Any]:
    """Return what checks a strategy's options; cached, because every peer makes a strategy."""
    return TypeAdapter(kind)


def make_strategy(name: str, options: Mapping[str, Any] | None = None) -> Strategy | ServerStrategy:
    """Return a new strategy; an unknown name or an impossible option is a ConfigError.

    Parameters
    ----------
    name
        The strategy's name, as in `STRATEGIES`.
    options
        {option: value}; all others have their defaults.

    Examples
    --------
    >>> make_strategy("dac", {"tau": 100}).options()["tau"]
    100.0
    >>> make_strategy("dak")
    Traceback (most recent call last):
        ...
    coterie.errors.ConfigError: There is no strategy 'dak'. Did you mean 'dac'? ...
    """
    if name not in STRATEGIES:
        raise ConfigError(f"There is no strategy '{name}'.{suggest(name, STRATEGIES)}")
    kind = STRATEGIES[name]
    known = kind().options()
    for option in options or {}:
        if option not in known:
            raise ConfigError(
                f"Strategy '{name}' has no option '{option}'.{suggest(option, known)}"
            )
    made = _checked(kind, options or {})
    made.mark_given(options or {})
    return made


def check_options(strategy: Strategy | ServerStrategy) -> None:
    """Raise a ConfigError if a strategy was made in Python with impossible options."""
    if type(strategy) in STRATEGIES.values():  # a user's own may have options of any type
        _checked(type(strategy), strategy.options())


def _checked(kind: Any, options: Mapping[str, Any]) -> Strategy | ServerStrategy:
    for option, value in options.items():
        try:
            check_integers(value)
        except ValueError as error:
            message = f"strategy.{option} = {value!r} cannot be used: {error}."
            raise ConfigError(message) from None
    try:
        made: Strategy | ServerStrategy = _checker(kind).validate_python(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"strategy.{where} = {first['input']!r} cannot be used: {simplify(first['msg'])}."
        ) from None
    return made
