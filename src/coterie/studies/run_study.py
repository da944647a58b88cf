"""Runs a study: each of its folders is one experiment, which is started, continued or extended.

FOLDER/study.yaml   the name of the study
FOLDER/NAME/        the runs of one setting, or of several settings that share them
FOLDER/study.md     the tables
FOLDER/results.csv  one row per setting and run
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml
from rich.table import Table

from coterie.data.dataset_catalogue import load_dataset
from coterie.errors import (
    ConfigError,
    CoterieError,
    DataError,
    Interrupted,
    StorageError,
    WorkerDied,
)
from coterie.experiments.config import LINEAR, RunConfig
from coterie.experiments.experiment import Experiment, run_name
from coterie.experiments.experiment_file import EXPERIMENT
from coterie.experiments.run_folder import RunFolder
from coterie.reports.comparison_tables import format_duration
from coterie.reports.final_table import build_final_table
from coterie.results.published_comparison import compare_with_published, list_differences
from coterie.storage.files import explain_errors, make_folder, read_small, write_text
from coterie.storage.yaml_text import parse_yaml
from coterie.studies.base import FolderPlan, Setting, Study
from coterie.studies.estimate import seconds_left

STUDY = "study.yaml"


def open_study(folder: Path, study: Study) -> None:
    """Create the folder of a study; refuse a folder that holds something else."""
    with explain_errors(f"use {folder} as output folder"):
        if (folder / STUDY).exists():
            return _check_study(folder, study)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StorageError(
                f"Cannot use {folder} as output folder: it is not empty and holds no study. "
                "Choose another with --out."
            )
    make_folder(folder)
    write_text(folder / STUDY, yaml.safe_dump({"study": study.name}))
    return None


def _check_study(folder: Path, study: Study) -> None:
    try:
        found = parse_yaml(read_small(folder / STUDY).decode())
    except ValueError:
        found = None
    if found != {"study": study.name}:
        raise StorageError(
            f"{folder} does not hold the study {study.name}, see {STUDY} in it. Choose another "
            "folder with --out."
        )


def check_unchanged(folder: Path, parts: Sequence[FolderPlan]) -> None:
    """Refuse requested runs that exist already with other settings."""
    for part in parts:
        present = {run.folder.name: run.config for run in _runs_of(folder / part.folder_name)}
        for config in part.configs:
            name = run_name(config)
            if name in present and (found := list_differences(present[name], config)):
                raise ConfigError(
                    f"The run {folder / part.folder_name / name} exists with other settings. This "
                    f"command has {'; '.join(found)}. Use the same settings as before, or choose "
                    "another folder with --out."
                )


def _runs_of(folder: Path) -> list[RunFolder]:
    return Experiment.open(folder).runs if (folder / EXPERIMENT).exists() else []


def unfinished_configs(folder: Path, part: FolderPlan) -> list[RunConfig]:
    """Return the requested runs that have not finished."""
    done = {run.folder.name for run in _runs_of(folder / part.folder_name) if run.read_summary()}
    return [config for config in part.configs if run_name(config) not in done]


def run_parts(
    folder: Path,
    parts: Sequence[FolderPlan],
    run: Callable[[Experiment], None],
    say: Callable[[str], None],
    threads: int = 1,
) -> None:
    """Run, or continue, all unfinished runs; `threads` is used to estimate the time.

    Settings that fail or lack their data do not stop the others; they raise an error at the end.
    """
    problems: dict[str, CoterieError] = {}
    missing: dict[tuple[str, ...], DataError] = {}
    waiting = [part for part in parts if unfinished_configs(folder, part)]
    for number, part in enumerate(waiting):
        left = format_duration(_seconds_left(folder, waiting[number:], threads))
        say(
            f"{part.folder_name} ({number + 1} of {len(waiting)} to run): {len(part.configs)} "
            f"runs; about {left} left for all"
        )
        try:
            _check_data(part.configs[0], missing)
            experiment = prepare_experiment(folder / part.folder_name, part.configs)
            run(experiment)
            if experiment.was_asked_to_stop and number + 1 < len(waiting):
                raise Interrupted(f"Stopped. {part.folder_name} has finished.")
        except (StorageError, WorkerDied):
            raise  # the next one would fail for the same reason
        except CoterieError as error:
            problems[part.folder_name] = error
            skipped = "skipped" if isinstance(error, DataError) else "not finished"
            say(f"{part.folder_name} is {skipped}: {_first_sentence(error)}")
    if problems:
        raise _all_in_one(problems, len(parts))


def _seconds_left(folder: Path, parts: Sequence[FolderPlan], threads: int) -> float:
    """Estimate the time left from all finished runs of the study."""
    waiting = [config for part in parts for config in unfinished_configs(folder, part)]
    folders = (path.parent for path in sorted(folder.glob(f"*/{EXPERIMENT}")))
    finished = (run for each in folders for run in _runs_of(each) if run.read_summary())
    return seconds_left(waiting, finished, threads)


def _first_sentence(error: CoterieError) -> str:
    """Return the first sentence of a message; the end of the study shows all of it."""
    return re.split(r"(?<=\.)\s", str(error))[0]


def _all_in_one(problems: dict[str, CoterieError], num_parts: int) -> CoterieError:
    """Return one error for all unfinished settings; its class is that of the first."""
    folders: dict[str, list[str]] = {}
    for folder, error in problems.items():
        folders.setdefault(str(error), []).append(folder)
    lines = "\n".join(f"{', '.join(names)}: {text}" for text, names in folders.items())
    first = next(iter(problems.values()))
    return type(first)(f"{len(problems)} of {num_parts} settings are not finished.\n{lines}")


def _check_data(config: RunConfig, missing: dict[tuple[str, ...], DataError]) -> None:
    """Raise a DataError if datasets are missing; search for each only once."""
    names = config.data.datasets
    if names in missing:
        raise missing[names]
    try:
        for name in names:
            if name != LINEAR:
                load_dataset(name, config.data.root)
    except DataError as error:
        missing[names] = error
        raise


def tables_beside_published(folder: Path, settings: Sequence[Setting]) -> Iterator[Table]:
    """Yield a table of the finished runs of each setting, with the published numbers."""
    for setting in settings:
        finished = [run for run in _runs_of(folder / setting.folder_name) if run.read_summary()]
        summaries = [reached for run in finished if (reached := run.read_summary())]
        if summaries:
            compared = compare_with_published([run.config for run in finished])
            yield build_final_table(setting.name, summaries, compared)


def prepare_experiment(folder: Path, configs: Sequence[RunConfig]) -> Experiment:
    """Return the experiment of a folder with only these runs; missing runs are added."""
    whole = Experiment(folder, _runs_of(folder))
    present = {run.folder.name for run in whole.runs}
    whole.add([config for config in configs if run_name(config) not in present])
    requested = {run_name(config) for config in configs}
    whole.runs = [run for run in whole.runs if run.folder.name in requested]
    return whole
