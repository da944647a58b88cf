"""Callbacks: code of the user that follows a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.api.result import Result
    from coterie.loggers.logger import Logger
    from coterie.runtime.round import Round
    from coterie.tasks import TaskScore


class Callback:
    """Follows a simulation. Override what you need; by default the methods do nothing.

    Examples
    --------
    >>> class Printer(Callback):
    ...     def on_round(self, now):
    ...         print(now.number, now.measures["validation_loss_trained"].mean())
    """

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Take the settings, before the first round."""

    def on_round(self, now: Round) -> None:
        """Take a finished round: its measures and exchanges, with one entry per peer."""

    def on_end(self, result: Result) -> None:
        """Take the result, after the last round."""


class LoggerCallback(Callback):
    """Sends the means of each round to a logger."""

    def __init__(self, logger: Logger, name: str, folder: Path | None, score: TaskScore) -> None:
        self._logger = logger
        self._name = name
        self._folder = folder
        self._score = score
        self._has_started = False

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Start the logger."""
        self._logger.start(self._name, settings, self._folder)
        self._has_started = True

    def on_round(self, now: Round) -> None:
        """Log the means of the round over peers."""
        from coterie.runtime.round_metrics import measure_round

        self._logger.log(now.number, measure_round(now, self._score).means)

    def finish(self, *, is_complete: bool) -> None:
        """End the logger, if it has started."""
        if self._has_started:
            self._logger.finish(is_complete=is_complete)


@contextmanager
def finish_loggers(logs: Iterable[LoggerCallback]) -> Iterator[None]:
    """End loggers after a simulation, also after one that failed."""
    is_complete = False
    try:
        yield
        is_complete = True
    finally:
        for each in logs:
            each.finish(is_complete=is_complete)


def split_callbacks(callbacks: Iterable[Any]) -> tuple[list[Callback], list[Logger]]:
    """Return the callbacks and the loggers among them."""
    from coterie.loggers.logger import Logger

    given = list(callbacks)
    for each in given:
        if isinstance(each, type) or not isinstance(each, Callback | Logger):
            raise ConfigError(
                f"callbacks has {each!r}, but must be a list of objects derived from "
                "coterie.Callback, or loggers such as coterie.loggers.WandbLogger(). For a plain "
                "function use on_round=…"
            )
    return (
        [each for each in given if isinstance(each, Callback)],
        [each for each in given if isinstance(each, Logger)],
    )


def call_all(
    callbacks: Iterable[Callback], on_round: Callable[[Round], None] | None
) -> Callable[[Round], None]:
    """Return a function that hands a round to all."""
    listeners = [*([on_round] if on_round else []), *(each.on_round for each in callbacks)]

    def listen(now: Round) -> None:
        for listener in listeners:
            listener(now)

    return listen
