"""Sends the rounds of several runs to loggers, one for each run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.experiments.run_folder import RunFolder
from coterie.loggers.logger import Logger, LoggerName, make_logger
from coterie.runtime.round_metrics import RoundMetrics


class RunLogs:
    """The loggers of the runs that are running now."""

    def __init__(self, name: LoggerName | None) -> None:
        self._name = name
        self._open: dict[Path, Logger] = {}
        if name is not None:
            make_logger(name)  # a missing package is reported before anything runs

    def log(self, run: RunFolder, now: RoundMetrics) -> None:
        """Log a round; the first one of a run starts its logger."""
        if self._name is None:
            return
        if run.folder not in self._open:
            logger = make_logger(self._name)
            settings = run.config.model_dump(mode="json")
            logger.start(f"{run.folder.parent.name}/{run.folder.name}", settings, run.folder)
            self._open[run.folder] = logger
        self._open[run.folder].log(now.round, now.means)

    def end(self, run: RunFolder) -> None:
        """End the log of a run, which has finished or failed."""
        if logger := self._open.pop(run.folder, None):
            logger.finish(is_complete=run.read_summary() is not None)

    def close(self) -> None:
        """End the logs of runs that were stopped."""
        while self._open:
            self._open.popitem()[1].finish(is_complete=False)


@contextmanager
def log_runs(name: LoggerName | None) -> Iterator[RunLogs]:
    """Yield the loggers of runs; without a name they do nothing."""
    logs = RunLogs(name)
    try:
        yield logs
    finally:
        logs.close()
