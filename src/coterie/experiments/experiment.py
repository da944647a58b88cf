"""An experiment: several runs in one folder, each resumable on its own.

FOLDER/experiment.yaml  the names of the runs, in order; and in a sweep what varies
FOLDER/RUN/             one run, see `execution`

One run that fails does not cost the others their work. What is wrong with the run itself, such as
training that diverged, leaves the others alone; after what is wrong with the machine, a full disk
or too little memory, the runs that have begun are finished but no other is started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from pydantic import Field, ValidationError

from coterie.data.scenario import Scenario
from coterie.errors import ConfigError, CoterieError, Interrupted, StorageError
from coterie.experiments.config import (
    RunConfig,
    build_model,
    make_scenario,
    read_yaml,
    scenario_key,
)
from coterie.experiments.execution import RoundMetrics, execute
from coterie.experiments.failures import Failures, how_to_continue, resume_command
from coterie.experiments.parallel_runs import Line, SideBySide
from coterie.experiments.run_folder import CONFIG, RunFolder
from coterie.experiments.run_summary import RunSummary
from coterie.experiments.user_strategies import check_strategies
from coterie.learning.parallel_trainer import can_fork
from coterie.learning.trainer_choice import Tell, check_training, load_before_fork
from coterie.models.architectures import architecture
from coterie.processes.signals import stop_by_signal
from coterie.settings import Settings
from coterie.simulation.simulation import check_simulation
from coterie.storage.files import explain_errors, lock_folder, make_folder, read_small, write_text
from coterie.storage.yaml_text import parse_yaml
from coterie.strategies import make_strategy

EXPERIMENT = "experiment.yaml"
MEMORY_SHARE = 0.5
"""How much of the free memory the models of runs side by side may take."""
OnRound = Callable[[RunFolder, RoundMetrics], None]
OnEnd = Callable[[RunFolder], None]
Execute = Callable[..., None]
"""What runs one run: called as `execution.execute` is."""


@dataclass(frozen=True)
class Audience:
    """Who is told how an experiment gets on."""

    on_round: OnRound
    on_end: OnEnd
    tell: Tell


class Grid(Settings):
    """What a sweep varies, and what it was asked for besides."""

    varied: tuple[str, ...]
    """The dotted keys of the settings that vary."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """The settings changed in all runs, by their dotted keys."""
    scale: float = 1.0
    select: bool = False
    """Whether the best setting of each strategy is to be named."""


class Contents(Settings):
    """What experiment.yaml holds."""

    runs: tuple[str, ...]
    sweep: Grid | None = None


class Experiment:
    """The runs of one folder."""

    def __init__(self, folder: Path, runs: Sequence[RunFolder], grid: Grid | None = None) -> None:
        self.folder = folder
        self.runs = list(runs)
        self.grid = grid
        self.was_asked_to_stop = False
        """Whether Ctrl-C came when no run was left: whatever comes after it should not begin."""
        self._scenario: tuple[str, Scenario] | None = None

    @classmethod
    def create(
        cls,
        folder: Path,
        configs: Sequence[RunConfig],
        names: Sequence[str] | None = None,
        grid: Grid | None = None,
    ) -> Experiment:
        """Lay out a new experiment; a folder that holds anything already is refused."""
        _check_unused(folder)
        names = names or [run_name(config) for config in configs]
        experiment = cls(folder, _new_runs(folder, names, configs), grid)
        experiment._check_data()
        make_folder(folder)
        for run in experiment.runs:
            run.lay_out()
        _write(folder, Contents(runs=tuple(names), sweep=grid))
        return experiment

    def add(self, configs: Sequence[RunConfig]) -> None:
        """Add runs, such as of another strategy or seed; those that are there stay untouched."""
        if not configs:
            return
        names = [run_name(config) for config in configs]
        added = Experiment(self.folder, _new_runs(self.folder, names, configs))
        added._check_data()
        make_folder(self.folder)
        with lock_folder(self.folder):
            # Read anew: another process may have added runs since this one opened the experiment.
            path = self.folder / EXPERIMENT
            listed = read_contents(path).runs if path.exists() else ()
            if again := sorted({*names} & {*listed}):
                raise ConfigError(f"{self.folder} holds a run {again[0]} already.")
            for run in added.runs:
                run.lay_out()
            _write(self.folder, Contents(runs=(*listed, *names), sweep=self.grid))
        self.runs += added.runs
        self._scenario = added._scenario

    @classmethod
    def open(
        cls, folder: Path, on_damaged: Callable[[CoterieError], None] | None = None
    ) -> Experiment:
        """Open an experiment, or a single run of one.

        Runs that cannot be read are left out if somebody is there to be told of them.
        """
        path = folder / EXPERIMENT
        with explain_errors(f"open {folder}"):
            if not folder.exists():
                raise StorageError(f"There is no folder {folder}.")
            if (folder / CONFIG).exists():
                return cls(folder, [RunFolder(folder, read_yaml(folder / CONFIG))])
            if not path.exists():
                raise StorageError(
                    f"{folder} is not the folder of a run: it has neither {EXPERIMENT} nor "
                    f"{CONFIG}."
                )
        contents = read_contents(path)
        runs = []
        for name in contents.runs:
            try:
                runs.append(RunFolder(folder / name, read_yaml(folder / name / CONFIG)))
            except CoterieError as error:
                if on_damaged is None:
                    raise
                on_damaged(error)
        return cls(folder, runs, contents.sweep)

    @property
    def summaries(self) -> list[RunSummary]:
        """What the finished runs reached, in order."""
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
    ) -> list[RunSummary]:
        """Run, or resume, everything that has not finished; return what every run reached.

        `side_by_side` runs at a time share the threads; the results are the same bits. `execute`:
        who runs one of them, if that is not the simulator.
        """
        self.was_asked_to_stop = False
        waiting = [run for run in self.runs if run.read_summary() is None]
        strategies = {run.folder: run.config.strategy["name"] for run in waiting}
        check_strategies(strategies, resume_command(self.folder), tell)
        failures = Failures(self.folder, len(self.runs), len(waiting))
        audience = Audience(
            on_round or (lambda run, glimpse: None), on_end or (lambda run: None), tell
        )
        try:
            if side_by_side == 1:
                self._one_after_another(waiting, failures, threads, audience, execute)
            else:
                self._side_by_side(waiting, failures, threads, side_by_side, audience)
        except Interrupted as error:
            failures.explain(error)
            raise
        failures.raise_any()
        return self.summaries

    def best_side_by_side(self, threads: int) -> int:
        """Return how many runs to run at a time: as many as threads, if runs and memory suffice.

        Runs side by side never wait for each other, peers of one run do in every round; but each
        run has its own models.
        """
        waiting = [run for run in self.runs if run.read_summary() is None]
        if len(waiting) < threads or threads == 1:
            return 1
        needed = threads * max(_model_bytes(run.config) for run in waiting)
        return threads if needed < MEMORY_SHARE * psutil.virtual_memory().available else 1

    def _one_after_another(
        self,
        waiting: Sequence[RunFolder],
        failures: Failures,
        threads: int,
        audience: Audience,
        execute: Execute,
    ) -> None:
        for run in waiting:
            if failures.concern_all:
                break
            failures.num_started += 1
            try:
                execute(
                    run,
                    partial(self._scenario_of, run.config),
                    threads=threads,
                    on_round=partial(audience.on_round, run),
                    tell=audience.tell,
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
            audience.on_end(run)

    def _side_by_side(
        self,
        waiting: Sequence[RunFolder],
        failures: Failures,
        threads: int,
        count: int,
        audience: Audience,
    ) -> None:
        by_name = {run.folder.name: run for run in waiting}
        stopped: list[str] = []

        told: set[str] = set()

        def listen(name: str, message: RoundMetrics | str) -> None:
            if isinstance(message, RoundMetrics):
                audience.on_round(by_name[name], message)
            elif message not in told:  # what many runs have to say is said by the first
                told.add(message)
                audience.tell(f"{name}: {message}")

        def end(name: str, error: BaseException | None) -> None:
            if isinstance(error, Interrupted):
                stopped.append(name)
            elif error is not None:
                failures.add(name, error)
            audience.on_end(by_name[name])

        share = max(1, threads // count)

        def work() -> Iterator[tuple[str, Callable[[Line], None]]]:
            for run in waiting:
                if failures.concern_all:
                    return
                failures.num_started += 1
                try:
                    world = self._prepare_to_fork(run.config) if can_fork() else None
                except CoterieError as error:
                    failures.add(run.folder.name, error)
                    continue
                yield run.folder.name, partial(_execute_beside, run, world, share, self.folder)

        with stop_by_signal(audience.tell) as asked_to_stop:
            pool = SideBySide(count, on_message=listen, on_end=end)
            pool.run(work(), asked_to_stop)
            self.was_asked_to_stop = asked_to_stop()
            if stopped or (self.was_asked_to_stop and failures.num_not_started):
                raise Interrupted(f"Stopped by {asked_to_stop.by}; all runs are saved.")

    def _prepare_to_fork(self, config: RunConfig) -> Scenario:
        """Make in this process what the processes of several runs can then share."""
        world = self._scenario_of(config)
        module = build_model(config, world.num_outputs)
        load_before_fork(module, config.training, world.input_shape)
        return world

    def _check_data(self) -> None:
        """Find a mistake in the data or a model before there is a folder to resume."""
        alike: dict[Any, list[RunConfig]] = {}
        for run in reversed(self.runs):
            alike.setdefault(_data_and_model(run.config), []).append(run.config)
        # The first one comes last: its scenario is kept, and needed first.
        for configs in alike.values():
            world = self._scenario_of(configs[-1])
            build_model(configs[-1], world.num_outputs)
            for config in configs:
                check_training(config.training)
                strategy = make_strategy(config.strategy["name"], config.strategy_options())
                check_simulation(world, strategy, config)

    def _scenario_of(self, config: RunConfig) -> Scenario:
        """Return the data of a run; the same as the last run's are not made anew."""
        key = scenario_key(config)
        if self._scenario is None or self._scenario[0] != key:
            self._scenario = None  # free the old one before the new one is made
            self._scenario = (key, make_scenario(config))
        return self._scenario[1]


def run_name(config: RunConfig) -> str:
    """Return what the folder of a run is called, unless something else varies as well."""
    return f"{config.label}-seed{config.seed}"


def _new_runs(folder: Path, names: Sequence[str], configs: Sequence[RunConfig]) -> list[RunFolder]:
    """Return runs that are about to be laid out; two of one name would overwrite each other."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(f"The run {name} is asked for {count} times; name it once.")
    return [RunFolder(folder / name, config) for name, config in zip(names, configs, strict=True)]


def _execute_beside(
    run: RunFolder, world: Scenario | None, threads: int, folder: Path, line: Line
) -> None:
    """Execute a run in a process of its own; a world is one shared with other processes."""
    if world is not None:
        world.detach()
    execute(
        run,
        lambda: make_scenario(run.config) if world is None else world,
        threads=threads,
        on_round=line.say,
        tell=line.say,
        asked_to_stop=line.asked_to_stop,
        how_to_continue=how_to_continue(folder),
    )


def _model_bytes(config: RunConfig) -> int:
    """Return about how much memory the models of a run take: five matrices K×P of float32."""
    return 5 * 4 * config.peers.count * architecture(config.model.name).num_parameters


def _data_and_model(config: RunConfig) -> str:
    """Return a text that is equal for runs whose data and model are equal but for the seed."""
    return scenario_key(config.model_copy(update={"seed": 0})) + config.model.model_dump_json()


def _check_unused(folder: Path) -> None:
    """Refuse an output folder that would be mixed up with what is there."""
    with explain_errors(f"use {folder} as output folder"):
        if not folder.exists():
            return
        if not folder.is_dir():
            hint = "It is a file"
        elif (folder / EXPERIMENT).exists() or (folder / CONFIG).exists():
            hint = "It holds another run"
        elif any(folder.iterdir()):
            hint = "It is not empty"
        else:
            return
    message = f"Cannot use {folder} as output folder. {hint}; choose another with --out."
    if hint == "It holds another run":
        message += f" Or continue that one with: {resume_command(folder)}"
    raise StorageError(message)


def _write(folder: Path, contents: Contents) -> None:
    """Write what an experiment lists, whole or not at all."""
    plain = contents.model_dump(mode="json", exclude_none=True)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    write_text(folder / EXPERIMENT, text)


def read_contents(path: Path) -> Contents:
    """Return what an experiment lists."""
    try:
        contents = Contents.model_validate(parse_yaml(read_small(path).decode()))
        if not contents.runs:
            raise ValueError
    except (ValueError, ValidationError):
        raise StorageError(
            f"{path} is damaged: expected 'runs:' and the names of the run folders. The runs "
            "themselves can still be resumed one by one, by their folders."
        ) from None
    if any(name in ("", "..") or Path(name).name != name for name in contents.runs):
        raise StorageError(f"{path} names a run outside its folder.")
    return contents
