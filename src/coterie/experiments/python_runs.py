"""Runs that are started from Python: their configuration, and their folder if they have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError, StorageError
from coterie.experiments.config import CONFIG, PYTHON, SAVED, RunConfig, read_config
from coterie.experiments.execution import finish
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_summary import RunSummary, mean_metrics, summarise
from coterie.runtime.checkpoints import Checkpoints
from coterie.runtime.loop import run_to_end
from coterie.runtime.recorder import Recorder
from coterie.runtime.round import Round
from coterie.runtime.settings import SimulationSettings
from coterie.simulation.any_simulation import AnySimulation
from coterie.simulation.result_warnings import find_warnings
from coterie.storage.files import lock_folder
from coterie.strategies.server.server_strategy import ServerStrategy
from coterie.strategies.strategy import Strategy
from coterie.tasks import Task
from coterie.tasks.score import SCORES

CHECKPOINT_EVERY = 10


def python_config(
    datasets: PeerDatasets, strategy: Strategy | ServerStrategy, settings: SimulationSettings
) -> RunConfig:
    """Return the configuration of a run whose data and model are objects of Python."""
    samples = datasets.load_step(0)
    sizes = {
        f"{name}_size": round(sum(len(getattr(each, name)) for each in samples) / len(samples))
        for name in ("train", "validation")
    }
    options = strategy.options()
    chosen = {name: options[name] for name in strategy.given}
    given = {
        "preset": PYTHON,
        "label": strategy.name,
        "data": {"datasets": [PYTHON]},
        "model": {"name": PYTHON},
        "task": _task_settings(datasets.task),
        "peers": {"count": datasets.num_peers, **sizes},
        "strategy": {"name": strategy.name, **chosen},
    }
    return RunConfig.model_validate({**settings.model_dump(), **given}, context=SAVED)


def _task_settings(task: Task) -> dict[str, str]:
    """Return the names of the loss and the score, so that a run is resumed with the same ones.

    A function of the user has no name that could be compared.
    """
    scores = [name for name, score in SCORES.items() if score == task.score]
    return {
        **({"loss": task.loss} if isinstance(task.loss, str) else {}),
        **({"score": scores[0]} if scores else {}),
    }


def open_folder(folder: Path, config: RunConfig, *, resume: bool) -> RunFolder:
    """Return the folder of a run: a new one, or with `resume` one that exists."""
    if not (folder / CONFIG).exists():
        if folder.exists() and any(folder.iterdir()):
            raise StorageError(f"out = {folder} is not empty, and holds no run. Choose another.")
        run = RunFolder(folder, config)
        run.create_folder()
        return run
    if not resume:
        raise StorageError(
            f"out = {folder} holds a run. Add resume=True to continue it, or choose another folder."
        )
    before, now = (each.model_dump() for each in (read_config(folder / CONFIG), config))
    changed = [key for key in now if now[key] != before[key]]
    if changed:
        raise ConfigError(
            f"The run in {folder} cannot be resumed: it has other settings of "
            f"{', '.join(changed)}. Give the same arguments, or choose another folder."
        )
    return RunFolder(folder, config)


def run_to_summary(
    simulation: AnySimulation,
    recorder: Recorder,
    run: RunFolder | None,
    label: str,
    on_round: Callable[[Round], None],
) -> RunSummary:
    """Run a simulation to its end, with its results and checkpoints in a folder if it has one."""
    datasets = simulation.datasets
    if run is None:
        run_to_end(simulation, recorder, on_round=on_round)
        metrics = recorder.table("metrics")
        seed, names = simulation.settings.seed, datasets.cluster_names
        return replace(
            summarise(metrics, label, seed, names, datasets.task.score),
            metrics=mean_metrics(recorder.table("test_metrics"), datasets.task),
            warnings=find_warnings(simulation, metrics),
        )
    with lock_folder(run.folder):
        run.write_cluster_names(datasets.cluster_names)
        run.write_score(datasets.task.score)
        run_to_end(
            simulation,
            recorder,
            Checkpoints(run.folder / "checkpoints"),
            checkpoint_every=CHECKPOINT_EVERY,
            on_round=on_round,
        )
        finish(run, recorder, simulation)
    summary = run.read_summary()
    if summary is None:
        raise StorageError(f"{run.folder} has lost its summary.")
    return summary
