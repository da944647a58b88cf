"""Logs to MLflow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError
from coterie.loggers.logger import Logger, flat_settings, import_or_explain

LONGEST_VALUE = 500
"""The longest text of a setting that every MLflow server accepts."""


class MlflowLogger(Logger):
    """Logs to the MLflow server that the environment names (MLFLOW_TRACKING_URI).

    Parameters
    ----------
    experiment
        The name of the experiment.
    tracking_uri
        The address of the server, if not from the environment.
    """

    def __init__(self, experiment: str = "coterie", tracking_uri: str | None = None) -> None:
        self._mlflow = import_or_explain("mlflow", "MLflow", "mlflow")
        self._entities = import_or_explain("mlflow.entities", "MLflow", "mlflow")
        self._experiment = experiment
        with self._explained():
            self._client = self._mlflow.MlflowClient(tracking_uri=tracking_uri)
        self._run_id = ""

    def start(self, name: str, settings: Mapping[str, Any], folder: Path | None) -> None:
        """Create a run with the settings as parameters."""
        with self._explained():
            known = self._client.get_experiment_by_name(self._experiment)
            number = (
                known.experiment_id
                if known is not None
                else self._client.create_experiment(self._experiment)
            )
            self._run_id = self._client.create_run(number, run_name=name).info.run_id
            values = flat_settings(settings).items()
            parameters = [
                self._entities.Param(key, str(value)[:LONGEST_VALUE]) for key, value in values
            ]
            self._client.log_batch(self._run_id, params=parameters)

    def log(self, round_number: int, means: Mapping[str, float]) -> None:
        """Log the means with the round as step."""
        now = int(time.time() * 1000)
        metrics = [
            # A name may not have all characters, such as that of R².
            self._entities.Metric(name.replace("²", "2"), value, now, round_number)
            for name, value in means.items()
        ]
        with self._explained():
            self._client.log_batch(self._run_id, metrics=metrics)

    def finish(self, *, is_complete: bool) -> None:
        """End the run."""
        with self._explained():
            self._client.set_terminated(self._run_id, "FINISHED" if is_complete else "KILLED")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of MLflow into ours."""
        try:
            yield
        except self._mlflow.exceptions.MlflowException as error:
            raise ConfigError(f"Logging to MLflow failed: {error}") from None
