"""An experiment: several runs in one folder, each resumable on its own.

FOLDER/experiment.yaml  the names of the runs, in order; and in a sweep the settings that vary
FOLDER/RUN/             one run, see `run_folder`

A run that fails does not stop the others. The exceptions are errors of the machine, such as a full
disk or too little memory: runs that have started are finished, but no other run is started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError, CoterieError, Interrupted, StorageError
from coterie.experiments.config import (
    CONFIG,
    RunConfig,
    build_model,
    find_model,
    make_datasets,
    read_config,
    scenario_key,
)
from coterie.experiments.engine import Engine, Execute
from coterie.experiments.execution import execute
from coterie.experiments.experiment_file import (
    EXPERIMENT,
    ExperimentFile,
    SweepGrid,
    read_experiment_file,
    write_experiment_file,
)
from coterie.experiments.failures import Failures, how_to_continue, resume_command
from coterie.experiments.parallel_runs import ParallelRuns, ParentLink
from coterie.experiments.run_folder import RunFolder
from coterie.experiments.run_pool import Callbacks, OnEnd, OnRound, run_pool
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.user_models import USER_MODELS
from coterie.experiments.user_strategies import check_strategies
from coterie.experiments.user_tasks import USER_TASKS
from coterie.learning.parallel_trainer import can_fork
from coterie.learning.trainer_choice import Tell, check_training, load_before_fork
from coterie.simulation.simulation import check_simulation
from coterie.storage.files import explain_errors, lock_folder, make_folder
from coterie.strategies import make_strategy

MEMORY_SHARE = 0.5
"""The share of the free memory that the models of parallel runs may take."""


class Experiment:
    """The runs of one folder."""

    def __init__(
        self, folder: Path, runs: Sequence[RunFolder], grid: SweepGrid | None = None
    ) -> None:
        self.folder = folder
        self.runs = list(runs)
        self.grid = grid
        self.was_asked_to_stop = False
        """Whether Ctrl-C came during the last run, so that the caller should start nothing more."""
        self._scenario: tuple[str, PeerDatasets] | None = None

    @classmethod
    def create(
        cls,
        folder: Path,
        configs: Sequence[RunConfig],
        names: Sequence[str] | None = None,
        grid: SweepGrid | None = None,
    ) -> Experiment:
        """Create the folders of a new experiment; `folder` must be empty or absent."""
        _check_unused(folder)
        names = names or [run_name(config) for config in configs]
        experiment = cls(folder, _new_runs(folder, names, configs), grid)
        experiment._check_data()
        make_folder(folder)
        for run in experiment.runs:
            run.create_folder()
        write_experiment_file(folder, ExperimentFile(runs=tuple(names), sweep=grid))
        return experiment

    def add(self, configs: Sequence[RunConfig]) -> None:
        """Add runs, such as of another strategy or seed; existing runs do not change."""
        if not configs:
            return
        names = [run_name(config) for config in configs]
        added = Experiment(self.folder, _new_runs(self.folder, names, configs))
        added._check_data()
        make_folder(self.folder)
        with lock_folder(self.folder):
            # Read again: another process may have added runs since this one opened the experiment.
            path = self.folder / EXPERIMENT
            listed = read_experiment_file(path).runs if path.exists() else ()
            if again := sorted({*names} & {*listed}):
                raise ConfigError(f"{self.folder} already has a run {again[0]}.")
            for run in added.runs:
                run.create_folder()
            write_experiment_file(
                self.folder, ExperimentFile(runs=(*listed, *names), sweep=self.grid)
            )
        self.runs += added.runs
        self._scenario = added._scenario

    @classmethod
    def open(cls, folder: Path, problems: list[str] | None = None) -> Experiment:
        """Open an experiment, or a single run of one.

        With `problems`, damaged runs are skipped and their errors are added to this list.
        """
        path = folder / EXPERIMENT
        with explain_errors(f"open {folder}"):
            if not folder.exists():
                raise StorageError(f"There is no folder {folder}.")
            if (folder / CONFIG).exists():
                return cls(folder, [RunFolder(folder, read_config(folder / CONFIG))])
            if not path.exists():
                raise StorageError(
                    f"{folder} is not an output folder of coterie run: it has neither {EXPERIMENT} "
                    f"nor {CONFIG}. Give the folder that --out named."
                )
        contents = read_experiment_file(path)
        runs = []
        for name in contents.runs:
            try:
                runs.append(RunFolder(folder / name, read_config(folder / name / CONFIG)))
            except CoterieError as error:
                if problems is None:
                    raise
                problems.append(str(error))
        return cls(folder, runs, contents.sweep)

    @property
    def summaries(self) -> list[RunSummary]:
        """The summaries of the finished runs, in order."""
        return [reached for run in self.runs if (reached := run.read_summary()) is not None]

    def run(
        self,
        *,
        threads: int,
        side_by_side: int = 1,
        on_round: OnRound | None = None,
        on_end: OnEnd | None = None,
        tell: Tell = print,
        execute: Execute = execute,
        engine: Engine | None = None,
    ) -> list[RunSummary]:
        """Run, or resume, all unfinished runs; return the summaries of all finished runs.

        `side_by_side` runs at a time share the threads; results are bit-identical. `execute` runs
        one of them, by default in the simulator. With an `engine`, such as a cluster, that engine
        decides how many runs it runs at a time and with how many threads.
        """
        self.was_asked_to_stop = False
        waiting = [run for run in self.runs if run.read_summary() is None]
        strategies = {run.folder: run.config.strategy["name"] for run in waiting}
        check_strategies(strategies, resume_command(self.folder), tell)
        for run in waiting:
            config = run.config
            for objects, name in ((USER_MODELS, config.model.name), (USER_TASKS, config.task.file)):
                objects.check_known(name, run.folder, resume_command(self.folder))
                objects.report_changed(name, run.folder, tell)
        failures = Failures(self.folder, len(self.runs), len(waiting))
        callbacks = Callbacks(
            on_round or (lambda run, metrics: None), on_end or (lambda run: None), tell
        )
        try:
            if engine is not None and engine.execute is None:
                self._on_engine(waiting, failures, engine, callbacks)
            elif engine is not None and engine.execute is not None:
                self._one_after_another(waiting, failures, threads, callbacks, engine.execute)
            elif side_by_side == 1:
                self._one_after_another(waiting, failures, threads, callbacks, execute)
            else:
                self._side_by_side(waiting, failures, threads, side_by_side, callbacks)
        except Interrupted as error:
            failures.explain(error)
            raise
        failures.raise_any()
        return self.summaries

    def best_side_by_side(self, threads: int) -> int:
        """Return how many runs to run at a time: `threads`, or 1 if runs or memory are too few.

        Parallel runs never wait for each other, whereas peers of one run do in every round. But
        each run has its own models in memory.
        """
        waiting = [run for run in self.runs if run.read_summary() is None]
        if len(waiting) < threads or threads == 1:
            return 1
        needed = threads * max(model_bytes(run.config) for run in waiting)
        return threads if needed < MEMORY_SHARE * psutil.virtual_memory().available else 1

    def _one_after_another(
        self,
        waiting: Sequence[RunFolder],
        failures: Failures,
        threads: int,
        callbacks: Callbacks,
        execute: Execute,
    ) -> None:
        for run in waiting:
            if failures.should_skip_rest:
                break
            failures.num_started += 1
            try:
                execute(
                    run,
                    partial(self._scenario_of, run.config),
                    threads=threads,
                    on_round=partial(callbacks.on_round, run),
                    tell=callbacks.tell,
                    how_to_continue=how_to_continue(self.folder),
                )
            except Interrupted as stopped:
                failed = stopped.__cause__
                if isinstance(failed, CoterieError):
                    failures.add(run.folder.name, failed)
                if failures.num_not_started or not (failed or run.read_summary()):
                    raise
                self.was_asked_to_stop = True
            except CoterieError as error:
                failures.add(run.folder.name, error)
            callbacks.on_end(run)

    def _side_by_side(
        self,
        waiting: Sequence[RunFolder],
        failures: Failures,
        threads: int,
        count: int,
        callbacks: Callbacks,
    ) -> None:
        share = max(1, threads // count)

        def work() -> Iterator[tuple[str, Callable[[ParentLink], None]]]:
            for run in waiting:
                if failures.should_skip_rest:
                    return
                failures.num_started += 1
                try:
                    world = self._prepare_to_fork(run.config) if can_fork() else None
                except CoterieError as error:
                    failures.add(run.folder.name, error)
                    continue
                yield run.folder.name, partial(_execute_in_worker, run, world, share, self.folder)

        self.was_asked_to_stop = run_pool(
            partial(ParallelRuns, count), work(), waiting, failures, callbacks
        )

    def _on_engine(
        self,
        waiting: Sequence[RunFolder],
        failures: Failures,
        engine: Engine,
        callbacks: Callbacks,
    ) -> None:
        def work() -> Iterator[tuple[str, RunFolder]]:
            for run in waiting:
                if failures.should_skip_rest:
                    return
                failures.num_started += 1
                yield run.folder.name, run

        if waiting:
            open_pool = partial(engine.open_pool, waiting, self.folder, callbacks.tell)
            self.was_asked_to_stop = run_pool(open_pool, work(), waiting, failures, callbacks)

    def _prepare_to_fork(self, config: RunConfig) -> PeerDatasets:
        """Load in this process the data and code that forked runs can share."""
        world = self._scenario_of(config)
        module = build_model(config, world.num_outputs)
        load_before_fork(module, config.training, world.input_shape)
        return world

    def _check_data(self) -> None:
        """Find mistakes in the data or the model before any folder is created."""
        similar: dict[Any, list[RunConfig]] = {}
        for run in reversed(self.runs):
            similar.setdefault(_data_and_model(run.config), []).append(run.config)
        # The first one comes last: its scenario is kept, and needed first.
        for configs in similar.values():
            world = self._scenario_of(configs[-1])
            build_model(configs[-1], world.num_outputs)
            for config in configs:
                check_training(config.training)
                strategy = make_strategy(config.strategy["name"], config.strategy_options())
                check_simulation(world, strategy, config)

    def _scenario_of(self, config: RunConfig) -> PeerDatasets:
        """Return the data of a run; they are reused if the last run had the same."""
        key = scenario_key(config)
        if self._scenario is None or self._scenario[0] != key:
            self._scenario = None  # free the old one before the new one is made
            self._scenario = (key, make_datasets(config))
        return self._scenario[1]


def run_name(config: RunConfig) -> str:
    """Return the name of a run's folder, unless other settings vary too."""
    return f"{config.label}-seed{config.seed}"


def _new_runs(folder: Path, names: Sequence[str], configs: Sequence[RunConfig]) -> list[RunFolder]:
    """Return new runs; refuse two of one name, which would overwrite each other."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(f"The run {name} appears {count} times. Name each strategy once.")
    return [RunFolder(folder / name, config) for name, config in zip(names, configs, strict=True)]


def _execute_in_worker(
    run: RunFolder, world: PeerDatasets | None, threads: int, folder: Path, link: ParentLink
) -> None:
    """Execute a run in a worker process; `world` is shared with other processes, or None."""
    if world is not None:
        world.detach()
    execute(
        run,
        lambda: make_datasets(run.config) if world is None else world,
        threads=threads,
        on_round=link.send,
        tell=link.send,
        asked_to_stop=link.asked_to_stop,
        how_to_continue=how_to_continue(folder),
    )


def model_bytes(config: RunConfig) -> int:
    """Return the approximate memory of a run's models: five matrices K×P of float32."""
    return 5 * 4 * config.peers.count * find_model(config).num_parameters


def _data_and_model(config: RunConfig) -> str:
    """Return a key that is equal for runs with the same data and model, except for the seed."""
    return scenario_key(config.model_copy(update={"seed": 0})) + config.model.model_dump_json()


def _check_unused(folder: Path) -> None:
    """Refuse an output folder that already holds something."""
    with explain_errors(f"use {folder} as output folder"):
        if not folder.exists():
            return
        if not folder.is_dir():
            problem = "it is a file"
        elif (folder / EXPERIMENT).exists() or (folder / CONFIG).exists():
            problem = "it holds another run"
        elif any(folder.iterdir()):
            problem = "it is not empty"
        else:
            return
    message = f"Cannot use {folder} as output folder: {problem}. Choose another with --out."
    if problem == "it holds another run":
        message += f" Or continue that run with: {resume_command(folder)}"
    raise StorageError(message)
